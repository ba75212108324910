package compact

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/stamp"
)

func TestOutdated_PointsAreThoseOfTheReplacingVersions(t *testing.T) {
	t.Parallel()
	type version struct {
		key  string
		at   uint64
		kind base.Kind
	}
	const set, gone = base.KindSet, base.KindStampDelete
	for name, c := range map[string]struct {
		all         []version
		tenth, half uint64
	}{
		"one version of each key":         {[]version{{"a", 9, set}, {"b", 8, set}}, 0, 0},
		"two versions":                    {[]version{{"a", 9, set}, {"a", 3, set}}, 9, 9},
		"three versions":                  {[]version{{"a", 9, set}, {"a", 5, set}, {"a", 3, set}}, 5, 9},
		"a deletion alone":                {[]version{{"a", 0, gone}}, 1, 1},
		"a deletion over a version":       {[]version{{"a", 7, gone}, {"a", 3, set}}, 7, 7},
		"an older entry of a version":     {[]version{{"a", 7, set}, {"a", 7, set}}, 0, 0},
		"a tombstone replaces no version": {[]version{{"a", 7, set}, {"a", 5, base.KindDelete}}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o Outdated
			o.Begin()
			for _, v := range c.all {
				o.Note(&base.Entry{Key: stamp.Append([]byte{0xff, 1, 1}, []byte(v.key), v.at), Meta: base.Meta{Kind: v.kind}}, true)
			}
			table := manifest.Table{Entries: uint64(len(c.all))}
			if o.Describe(&table); table.TenthOutdated != c.tenth || table.HalfOutdated != c.half {
				t.Errorf("points are %d and %d, want %d and %d", table.TenthOutdated, table.HalfOutdated, c.tenth, c.half)
			}
		})
	}
}

func TestOutdated_SamplesOfManyVersionsStayClose(t *testing.T) {
	t.Parallel()
	const versions = 100_000
	var o Outdated
	o.Begin()
	for i := range versions {
		o.Note(&base.Entry{Key: stamp.Append(nil, []byte("key"), uint64(versions-i)), Meta: base.Meta{Kind: base.KindSet}}, true)
	}
	table := manifest.Table{Entries: versions}
	o.Describe(&table)
	for _, c := range []struct{ got, want float64 }{{float64(table.TenthOutdated), versions / 10}, {float64(table.HalfOutdated), versions / 2}} {
		if c.got < 0.98*c.want || c.got > 1.02*c.want {
			t.Errorf("a point is %v, want about %v", c.got, c.want)
		}
	}
	if n := len(o.points.numbers); n > sampleMax {
		t.Error(fmt.Sprint(n, " points are kept"))
	}
}

func TestExpired_PartsOfATableAreKnownBesideOneThatExpiresMuchLater(t *testing.T) {
	t.Parallel()
	var o Outdated
	o.Begin()
	note := func(expires uint64) {
		o.Note(&base.Entry{Key: []byte("k"), Meta: base.Meta{Kind: base.KindSet, ExpiresAt: expires}}, false)
	}
	table := manifest.Table{Entries: 101, Expiring: 82, OldestExpiry: 1001, NewestExpiry: 5000 | stamp.ExpiryMark}
	for i := range uint64(80) {
		note(1080 - i)
	}
	for range 19 {
		note(0)
	}
	note(1 << 40)
	note(5000 | stamp.ExpiryMark) // the engine never takes it for expired
	o.Describe(&table)
	for now, want := range map[uint64]uint64{1000: 0, 1001: 0, 1010: 0, 1011: 10, 1050: 10, 1051: 50, 1 << 41: 50} {
		if got := (Shape{NowMs: now}).past(&table); got != want {
			t.Errorf("at %d: %d entries have expired, want %d", now, got, want)
		}
	}
}

func TestExpired_PartsOfATableCountVersionsWithTimestamps(t *testing.T) {
	t.Parallel()
	var o Outdated
	o.Begin()
	for at := range uint64(10) {
		o.Note(&base.Entry{Key: stamp.Append(nil, []byte("k"), at), Meta: base.Meta{Kind: base.KindSet, ExpiresAt: (1000 + at) | stamp.ExpiryMark}}, true)
	}
	table := manifest.Table{Entries: 10, Expiring: 10}
	if o.Describe(&table); table.TenthExpired != 1000 || table.HalfExpired != 1004 {
		t.Errorf("a tenth has expired at %d, half at %d", table.TenthExpired, table.HalfExpired)
	}
}

// Half of a table are tombstones, and the others have expired but for one. The table must not
// be dropped unread.
func TestExpired_AnEstimateNeverSaysAll(t *testing.T) {
	t.Parallel()
	table := &manifest.Table{Entries: 100, Deletions: 50, Expiring: 50, OldestExpiry: 1000, NewestExpiry: 3000, HalfExpired: 2000, TenthExpired: 1500}
	for now, want := range map[uint64]bool{2500: false, 2999: false, 3000: true} {
		s := Shape{NowMs: now, OldestSnapshot: 10}
		if got := s.dead(table); got != want {
			t.Errorf("at %d: the table is dropped: %t, want %t", now, got, want)
		}
	}
}
