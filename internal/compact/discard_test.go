package compact

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/stamp"
	"github.com/stoatdb/stoat/internal/testing/script"
)

// stampedKey parses key@timestamp#seq into a stored key of keyspace 1 and a sequence
// number. A key without a timestamp is of the default keyspace.
func stampedKey(t *testing.T, s string) ([]byte, base.SeqNum) {
	t.Helper()
	s, seq, _ := strings.Cut(s, "#")
	key, at, timed := strings.Cut(s, "@")
	if !timed {
		return []byte(key), mustSeq(t, seq)
	}
	n, err := strconv.ParseUint(at, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	space := keyspace.New(1)
	return stamp.Append(space.Append(nil, nil), []byte(key), n), mustSeq(t, seq)
}

// The cases are in testdata/discard. An entry is written key@timestamp#seq KIND,
// optionally with the expiry after a slash.
func TestDiscard_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/discard", func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			if c.Name != "discard" {
				c.Unknown(t)
			}
			limits := Discard{Timed: true, Below: uint64(c.Int(t, "below", 0)), Settled: uint64(c.Int(t, "settled", 0)), Purged: c.Has("purged")}
			rules := Rules{Snapshots: []base.SeqNum{base.SeqNum(c.Int(t, "oldest", 100))}, Bottom: !c.Has("above"), NowMs: uint64(c.Int(t, "now", 0))}
			d := discarder{rules: &rules, of: func(number uint32) Discard {
				if number != 1 {
					return Discard{}
				}
				return limits
			}}
			var out strings.Builder
			keep := func(e *base.Entry) {
				key, at, ok := stamp.Decode(e.Key[min(2, len(e.Key)):], nil)
				if !ok {
					key = e.Key
				}
				fmt.Fprintf(&out, "%s@%d#%d %s\n", key, at, e.Seq, e.Meta.Kind)
			}
			last := ""
			for _, line := range c.Lines() {
				entry, kind, _ := strings.Cut(line, " ")
				kind, expiry, expires := strings.Cut(kind, "/")
				e := base.Entry{Meta: base.Meta{Kind: map[string]base.Kind{"SET": base.KindSet, "DEL": base.KindStampDelete}[kind]}}
				if e.Key, e.Seq = stampedKey(t, entry); expires {
					n, err := strconv.ParseUint(expiry, 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					e.Meta.ExpiresAt = n | stamp.ExpiryMark
				}
				if string(e.Key) != last {
					d.begin(e.Key)
					last = string(e.Key)
				}
				if d.judge(&e) {
					continue
				}
				if held, ok := d.release(); ok {
					keep(held)
				}
				keep(&e)
			}
			if next, ok := c.Lookup("next"); ok {
				if key, _ := stampedKey(t, next+"#1"); d.straddles(key) {
					held, _ := d.release()
					keep(held)
				}
			}
			return out.String()
		}
	})
}

func TestDiscard_KnowsTheFirstEntryElsewhere(t *testing.T) {
	t.Parallel()
	table := func(num base.FileNum, lo, hi string, seq base.SeqNum) *manifest.Table {
		from, _ := stampedKey(t, lo+"#1")
		to, _ := stampedKey(t, hi+"#1")
		return &manifest.Table{Num: num, Smallest: from, Largest: to, SmallestSeq: seq}
	}
	input := table(1, "b@9", "d@50", 3)
	for _, c := range []struct {
		other    *manifest.Table
		want     base.SeqNum
		overlaps bool
		after    string
	}{
		{table(2, "c@9", "c@5", 7), 7, true, ""},
		{table(2, "a@9", "b@20", 7), 100, false, ""}, // later versions of the first key
		{table(2, "a@9", "b@9", 7), 7, true, ""},
		{table(2, "d@50", "e@5", 7), 7, true, ""},
		{table(2, "d@40", "e@5", 7), 100, true, "d@40"}, // older versions of the last key
		{table(2, "e@40", "f@5", 7), 100, false, ""},
		{table(2, "c@9", "c@5", 700), 100, true, ""},
	} {
		for level := range manifest.Levels {
			v := &manifest.Version{}
			v.Levels[last] = []*manifest.Table{input}
			v.Levels[level] = append(v.Levels[level], c.other)
			plan := &Plan{}
			plan.Inputs[last] = []*manifest.Table{input}
			want := Elsewhere{First: c.want}
			if c.after != "" {
				want.After, _ = stampedKey(t, c.after+"#1")
			}
			for _, tombstones := range []uint64{0, 1} {
				c.other.RangeDeletions = tombstones
				want.Purged = tombstones > 0 && c.overlaps
				if got := plan.Elsewhere(v, 100); !reflect.DeepEqual(got, want) {
					t.Errorf("with %d tombstones from %q to %q in level %d: %v, want %v", tombstones, c.other.Smallest, c.other.Largest, level, got, want)
				}
			}
		}
	}
}

// A range tombstone may end an input between two versions of a user's key.
func TestDiscard_KnowsWhereTheLastKeyMayGoOn(t *testing.T) {
	t.Parallel()
	key := func(s string) []byte {
		k, _ := stampedKey(t, s+"#1")
		return k
	}
	input := &manifest.Table{Num: 1, Smallest: key("b@9"), Largest: key("d@50"), LargestExclusive: true}
	next := &manifest.Table{Num: 2, Smallest: key("d@50"), Largest: key("e@5"), SmallestSeq: 7}
	later := &manifest.Table{Num: 3, Smallest: key("d@40"), Largest: key("d@30"), SmallestSeq: 8}
	v := &manifest.Version{}
	v.Levels[0], v.Levels[last] = []*manifest.Table{later}, []*manifest.Table{input, next}
	plan := &Plan{}
	plan.Inputs[last] = []*manifest.Table{input}
	if got, want := plan.Elsewhere(v, 100), (Elsewhere{First: 100, After: key("d@50")}); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	input.LargestExclusive = false
	if got, want := plan.Elsewhere(v, 100), (Elsewhere{First: 7, After: key("d@40")}); !reflect.DeepEqual(got, want) {
		t.Errorf("with the end included: %v, want %v", got, want)
	}
}
