package check

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/stamp"
)

// Numbers of keyspaces of a stampScene. Only one has timestamps.
const timed, untimed = 3, 4

func newStampScene(t *testing.T) *scene {
	s := newScene(t)
	s.state.Keyspaces = []*manifest.Keyspace{
		{}, {Number: timed, Name: "timed", Settings: manifest.Settings{Timestamps: manifest.TimestampsChecked}},
		{Number: untimed, Name: "untimed"},
	}
	return s
}

// stored returns the stored key of what a keyspace holds under key.
func stored(number uint32, key []byte) string {
	space := keyspace.New(number)
	return string(space.Append(nil, key))
}

// stamped returns the stored key of a version.
func stamped(key string, at uint64) string { return stored(timed, stamp.Append(nil, []byte(key), at)) }

var (
	deletedAt = base.Meta{Kind: base.KindStampDelete}
	expiring  = base.Meta{Kind: base.KindSet, ExpiresAt: stamp.ExpiryMark | 1000}
)

// soundVersions are versions with and without marks, keys with zero bytes, and two
// versions of one key at one timestamp.
func soundVersions() []item {
	return []item{
		{key: "a plain key", seq: 1}, {key: stamped("\x00", 5), seq: 2}, {key: stamped("a", 9), seq: 30}, {key: stamped("a", 9), seq: 20},
		{key: stamped("a", 7), seq: 40, meta: deletedAt}, {key: stamped("a\x00", 1<<63), seq: 4, meta: expiring}, {key: stamped("b", 0), seq: 5},
		{key: stored(untimed, []byte("k")), seq: 6, meta: base.Meta{Kind: base.KindDelete}},
	}
}

func TestCheckStamps_AcceptsSoundVersions(t *testing.T) {
	t.Parallel()
	s := newStampScene(t)
	s.addTable(1, 0, 1, soundVersions()...)
	if r := s.check(); r.Err() != nil || r.Entries != 8 {
		t.Errorf("%d entries: %v", r.Entries, r.Err())
	}
}

func TestCheckStamps_FindsWhatTheWriterOfVersionsNeverWrites(t *testing.T) {
	t.Parallel()
	set := func(at uint64) base.Meta { return base.Meta{Kind: base.KindSet, ExpiresAt: at} }
	for want, damaged := range map[string]item{
		`key with a timestamp: got 636f6d65, want an encoded key`:          {key: stored(timed, []byte("come"))},
		`key with a timestamp: got 61000300`:                               {key: stored(timed, []byte("a\x00\x03\x00aaaaaaaa"))},
		`key with a timestamp: got 6100010102`:                             {key: stored(timed, []byte("a\x00\x01\x01\x02"))},
		`key with a timestamp: got 610000000100000000`:                     {key: stored(timed, []byte("a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"))},
		`key with a timestamp: got 0001fffffffffffffffa`:                   {key: stored(timed, stamp.Append(nil, nil, 5))},
		"kind of a version with a timestamp: got DEL, want a value":        {key: stamped("c", 3), meta: base.Meta{Kind: base.KindDelete}},
		"expiry of a deletion at a timestamp: got 9223372036854775809":     {key: stamped("c", 3), meta: base.Meta{Kind: base.KindStampDelete, ExpiresAt: stamp.ExpiryMark + 1}},
		"expiry of a version with a timestamp: got 1000, want a marked":    {key: stamped("c", 3), meta: set(1000)},
		"expiry of a version with a timestamp: got 9223372036854775808, w": {key: stamped("c", 3), meta: set(stamp.ExpiryMark)},
	} {
		s := newStampScene(t)
		damaged.seq = 7
		s.addTable(1, 0, 1, damaged)
		r := s.check()
		if len(r.Problems) != 1 || !strings.Contains(fmt.Sprint(r.Problems), want) || !strings.Contains(fmt.Sprint(r.Problems), "000001.table: version 7 of key") {
			t.Errorf("want %q, got %d problems: %v", want, len(r.Problems), r.Err())
		}
	}
}

func TestCheckStamps_FindsAMarkInAKeyspaceWithoutTimestamps(t *testing.T) {
	t.Parallel()
	s := newStampScene(t)
	s.addTable(1, 0, 1, item{key: stored(untimed, []byte("k")), seq: 1, meta: expiring})
	if r := s.check(); len(r.Problems) != 1 || !strings.Contains(fmt.Sprint(r.Problems), "000001.table: latest expiry: got") {
		t.Errorf("got %d problems: %v", len(r.Problems), r.Err())
	}
}

// A damaged block may repeat, or come first, although every key in it is well formed.
func TestCheckStamps_FindsVersionsOutOfOrder(t *testing.T) {
	t.Parallel()
	value := base.Meta{Kind: base.KindSet}
	for _, x := range []struct {
		key  string
		seq  base.SeqNum
		want string
	}{
		{stamped("b", 7), 10, ""},
		{stamped("b", 8), 5, ""},
		{stamped("c", 99), 20, ""},
		{stamped("b", 8), 10, "order of versions: got 10"},
		{stamped("b", 8), 11, "order of versions: got 11"},
		{stamped("b", 9), 1, "order of timestamps: got 9, want 8 at most"},
		{stamped("a", 8), 1, `order of keys: got "a", want "b" or a greater one`},
		{stamped("\x00", 1), 1, "order of keys"},
	} {
		var s stampChecker
		if err := s.next([]byte(stamped("b", 8)), 10, value); err != nil {
			t.Fatal(err)
		}
		err := s.next([]byte(x.key), x.seq, value)
		if x.want == "" && err != nil || x.want != "" && (!errors.Is(err, base.ErrCorrupt) || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%q, version %d: %v, want %q", x.key, x.seq, err, x.want)
		}
	}
}

func TestCheckStamps_ReportsOnlySoMuchOfATable(t *testing.T) {
	t.Parallel()
	s := newStampScene(t)
	var items []item
	for i := range 3 * problemsMax {
		items = append(items, item{key: stamped(fmt.Sprintf("%05d", i), 3), seq: 9, meta: base.Meta{Kind: base.KindSet, ExpiresAt: 5}})
	}
	s.addTable(1, 0, 1, items...)
	if r := s.check(); len(r.Problems) != problemsMax+1 {
		t.Errorf("%d problems, want %d", len(r.Problems), problemsMax+1)
	}
}

func TestCheckStamps_ChecksEntriesOfTheLog(t *testing.T) {
	t.Parallel()
	s := newStampScene(t)
	for _, x := range []struct {
		key  string
		meta base.Meta
		want string
	}{
		{stamped("a", 3), base.Meta{Kind: base.KindSet}, ""},
		{stamped("a\x00", 3), deletedAt, ""},
		{stored(timed, []byte("a")), base.Meta{Kind: base.KindDeleteRange}, ""},
		{stored(timed, nil), base.Meta{Kind: base.KindDeleteRange}, ""},
		{stored(timed, nil), base.Meta{Kind: base.KindSet}, "stored key"},
		{stored(untimed, []byte("a")), base.Meta{Kind: base.KindDelete}, ""},
		{stored(99, []byte("a")), base.Meta{Kind: base.KindDelete}, ""},
		{stored(timed, []byte("a")), base.Meta{Kind: base.KindSet}, "key with a timestamp"},
		{stamped("a", 3), base.Meta{Kind: base.KindDelete}, "kind of a version"},
		{stamped("a", 3), base.Meta{Kind: base.KindMerge}, "kind of a version"},
		{stored(untimed, []byte("a")), expiring, "expiry of a version without a timestamp"},
		{stored(99, []byte("a")), expiring, ""},
	} {
		err := LogEntry(&s.state, []byte(x.key), x.meta)
		if x.want == "" && err != nil || x.want != "" && (!errors.Is(err, base.ErrCorrupt) || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%q, kind %v: %v, want %q", x.key, x.meta.Kind, err, x.want)
		}
	}
}
