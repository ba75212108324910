package iter

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

type fixedClock uint64

func (c fixedClock) Expired(at uint64, _ bool) bool { return uint64(c) >= at }

// world is a random set of versions spread over sources. expect gives the
// obvious answer to what a snapshot sees of them.
type world struct {
	sources [][]base.Entry // sources[0] is pending if own is true
	own     bool
	deleted deletions
	newest  bool // the inputs have MaxSeq
	keys    int  // number of possible keys
	edges   bool // some keys are before or after all others, and the heads do not tell them apart
}

func newWorld(rng *rand.Rand) world {
	w := world{sources: make([][]base.Entry, 1+rng.IntN(5)), own: rng.IntN(2) == 0, newest: rng.IntN(2) == 0}
	w.keys = 1 + rng.IntN(40)
	w.edges = rng.IntN(4) == 0
	if rng.IntN(8) == 0 {
		w.sources = make([][]base.Entry, 6+rng.IntN(30))
	}
	if rng.IntN(8) == 0 {
		w.keys *= 25 // enough for whole batches to be covered
	}
	plain := rng.IntN(4) == 0 // most batches are plain, and most rounds are one piece
	if plain {
		w.sources, w.own, w.keys = w.sources[:1], false, 100+rng.IntN(400)
	} else if rng.IntN(2) == 0 {
		w.deleted = randomDeletions(rng, w.key)
	}
	used := map[string]bool{}
	for range rng.IntN(max(300, 2*w.keys)) {
		key := fmt.Appendf(w.key(rng), "%s", []string{"", "", "\x00", "-longer than the heads"}[rng.IntN(4)])
		s := rng.IntN(len(w.sources))
		seq := base.SeqNum(1 + rng.IntN(60))
		if w.own && s == 0 {
			seq = 0
		}
		if id := fmt.Sprintf("%s/%d", key, seq); used[id] {
			continue
		} else {
			used[id] = true
		}
		m := base.Meta{Kind: base.KindSet, User: byte(rng.IntN(3))}
		switch n := rng.IntN(6); {
		case n == 2:
			m.Kind = base.KindPointer
		case plain:
		case n == 0:
			m.Kind = base.KindDelete
		case n == 1:
			m.ExpiresAt = uint64(90 + rng.IntN(20))
		}
		w.sources[s] = append(w.sources[s], base.Entry{
			Key: key, Value: fmt.Appendf(nil, "v%d", rng.IntN(1000)), Seq: seq, Meta: m,
		})
	}
	return w
}

// key returns a random key of the world.
func (w world) key(rng *rand.Rand) []byte {
	prefix := "k"
	if w.edges {
		prefix = []string{"k", strings.Repeat("\x00", 12), strings.Repeat("\xff", 12)}[rng.IntN(3)]
	}
	return fmt.Appendf(nil, "%s%d", prefix, rng.IntN(w.keys))
}

func (w world) inputs(reverse, volatile bool) []Input {
	var in []Input
	for i, s := range w.sources {
		input := Input{Source: newSliceSource(s, reverse, volatile), Pending: w.own && i == 0}
		for _, e := range s {
			if w.newest && !input.Pending {
				input.MaxSeq = max(input.MaxSeq, e.Seq)
			}
		}
		in = append(in, input)
	}
	return in
}

// expect computes what an iteration shows, in the slow and obvious way.
func (w world) expect(snap Snapshot, reverse bool, lower, upper, seek []byte) []string {
	var all []base.Entry
	for i, s := range w.sources {
		for _, e := range s {
			if w.own && i == 0 {
				e.Seq = PendingSeq
			}
			all = append(all, e)
		}
	}
	sorted := newSliceSource(all, false, false).entries
	var shown []base.Entry
	for i, e := range sorted {
		sees := func(e base.Entry) bool { return e.Seq <= snap.At || e.Seq == PendingSeq }
		if !sees(e) {
			continue
		}
		if !snap.AllVersions {
			first := true
			for j := i - 1; j >= 0 && bytes.Equal(sorted[j].Key, e.Key); j-- {
				first = first && !sees(sorted[j])
			}
			if !first || !e.Meta.Live(uint64(snap.Clock.(fixedClock))) || e.Seq < w.deleted.over(e.Key, snap.At) {
				continue
			}
		}
		if e.Seq <= snap.Since ||
			(lower != nil && bytes.Compare(e.Key, lower) < 0) ||
			(upper != nil && bytes.Compare(e.Key, upper) >= 0) ||
			(seek != nil && !reverse && bytes.Compare(e.Key, seek) < 0) ||
			(seek != nil && reverse && bytes.Compare(e.Key, seek) >= 0) {
			continue
		}
		shown = append(shown, e)
	}
	if reverse {
		slices.Reverse(shown)
	}
	var out []string
	for _, e := range shown {
		out = append(out, describe(e))
	}
	return out
}

func describe(e base.Entry) string {
	return fmt.Sprintf("%s#%d %s %s %v", e.Key, e.Seq, e.Meta.Kind, e.Value, e.Meta)
}

func TestVisible_ShowsExactlyWhatTheSnapshotSees(t *testing.T) {
	t.Parallel()
	var v Visible // reused, as the database does
	seeds := uint64(3000)
	if testing.Short() {
		seeds /= 10
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(rng)
		reverse := rng.IntN(2) == 0
		bound := func() []byte {
			if rng.IntN(2) == 0 {
				return nil
			}
			return w.key(rng)
		}
		lower, upper := bound(), bound()
		snap := Snapshot{At: base.SeqNum(rng.IntN(70)), Clock: fixedClock(100), AllVersions: rng.IntN(3) == 0}
		if rng.IntN(3) == 0 {
			snap.Since = base.SeqNum(rng.IntN(50))
		}
		cover := newSliceCover(t, w.deleted, snap.At, reverse)
		if len(w.deleted) > 0 || rng.IntN(2) == 0 {
			snap.Cover = cover
		}
		v.Init(w.inputs(reverse, rng.IntN(2) == 0), reverse, lower, upper, snap)
		for range 3 {
			seek := bound()
			cover.asked, cover.last = 0, nil
			var got []string
			for ok := v.Seek(seek); ok; ok = v.Next() {
				got = append(got, describe(*v.Entry))
			}
			if want := w.expect(snap, reverse, lower, upper, seek); !slices.Equal(got, want) {
				t.Fatalf("seed %d, reverse %v, [%s,%s), seek %s, %+v\n got %q\nwant %q",
					seed, reverse, lower, upper, seek, snap, got, want)
			}
			if cover.asked > 2*len(w.deleted)+1 {
				t.Fatalf("seed %d: %d deletions, %d questions", seed, len(w.deleted), cover.asked)
			}
			if v.Next() || v.Valid() {
				t.Fatalf("seed %d: an ended iteration moved on", seed)
			}
		}
		v.Clear()
	}
}

func TestVisible_KeepsTheErrorOfASource(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, reverse := range []bool{false, true} {
		var entries []base.Entry
		for i := range 100 {
			entries = append(entries, base.Entry{
				Key: fmt.Appendf(nil, "%03d", i), Seq: 1, Meta: base.Meta{Kind: base.KindSet},
			})
		}
		bad := newSliceSource(entries, reverse, true)
		bad.failAt, bad.err = 50, boom
		var v Visible
		v.Init([]Input{{Source: newSliceSource(nil, reverse, true)}, {Source: bad}}, reverse, nil, nil,
			Snapshot{At: 5, Clock: fixedClock(1)})
		n := 0
		for ok := v.Seek(nil); ok; ok = v.Next() {
			n++
		}
		if !errors.Is(v.Err(), boom) || n > 50 {
			t.Errorf("reverse %v: %d entries, then error %v", reverse, n, v.Err())
		}
		bad.failAt = -1
		if !v.Seek(nil) || v.Err() != nil {
			t.Errorf("reverse %v: a new seek did not start afresh: %v", reverse, v.Err())
		}
	}
}

// A lostSource is a source whose memory is lost after some fills.
type lostSource struct {
	*sliceSource
	left int
}

func (s *lostSource) Fill(b *Batch) error {
	if s.left--; s.left < 0 {
		panic("a page is lost")
	}
	return s.sliceSource.Fill(b)
}

func TestVisible_IsAtNoEntryAfterAFaultInASource(t *testing.T) {
	t.Parallel()
	var entries []base.Entry
	for i := range 100 {
		entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "%03d", i), Seq: 1, Meta: base.Meta{Kind: base.KindSet}})
	}
	for what, move := range map[string]func(v *Visible){
		"Next": func(v *Visible) {
			for v.Next() {
			}
		},
		"Seek": func(v *Visible) { v.Seek(nil) },
	} {
		for _, reverse := range []bool{false, true} {
			var v Visible
			v.Init([]Input{{Source: &lostSource{newSliceSource(entries, reverse, true), 1}}}, reverse, nil, nil,
				Snapshot{At: 5, Clock: fixedClock(1)})
			if !v.Seek(nil) {
				t.Fatal("nothing was read before the fault")
			}
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s, reverse %v: no fault", what, reverse)
					}
				}()
				move(&v)
			}()
			if v.Valid() {
				t.Errorf("%s, reverse %v: at %q", what, reverse, v.Entry.Key)
			}
		}
	}
}

func TestVisible_ShowsNoOldVersionWhenTheNewestCannotBeRead(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	var entries []base.Entry
	for seq := range base.SeqNum(2 * firstWant) {
		entries = append(entries, base.Entry{Key: []byte("k"), Seq: 1 + seq, Meta: base.Meta{Kind: base.KindSet}})
	}
	s := newSliceSource(entries, true, true)
	s.failAt, s.err = 0, boom // the newest, which comes last
	var v Visible
	v.Init([]Input{{Source: s}}, true, nil, nil, Snapshot{At: 100, Clock: fixedClock(1)})
	if v.Seek(nil) || !errors.Is(v.Err(), boom) {
		t.Errorf("shows version %d, error %v", v.Entry.Seq, v.Err())
	}
}

func TestVisible_DecodesLittleForAShortRange(t *testing.T) {
	t.Parallel()
	var entries []base.Entry
	for i := range 1000 {
		entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "%04d", i), Seq: 1, Meta: base.Meta{Kind: base.KindSet}})
	}
	s := newSliceSource(entries, false, false)
	var v Visible
	v.Init([]Input{{Source: s}}, false, nil, nil, Snapshot{At: 5, Clock: fixedClock(1)})
	v.Seek([]byte("0100"))
	for range 9 {
		v.Next()
	}
	if s.fills > 2 || s.at > 112 {
		t.Errorf("ten entries took %d fills up to entry %d", s.fills, s.at)
	}
}

// A countingClock counts the questions about the reader's own writes and about
// all entries.
type countingClock struct{ asked, askedPending int }

func (c *countingClock) Expired(_ uint64, pending bool) bool {
	if c.asked++; pending {
		c.askedPending++
	}
	return true
}

func TestVisible_AsksTheClockOnlyForEntriesItWouldShow(t *testing.T) {
	t.Parallel()
	expiring, forever := base.Meta{Kind: base.KindSet, ExpiresAt: 1}, base.Meta{Kind: base.KindSet}
	committed := []base.Entry{
		{Key: []byte("overwritten"), Seq: 1, Meta: expiring}, {Key: []byte("overwritten"), Seq: 2, Meta: forever},
		{Key: []byte("unseen"), Seq: 9, Meta: expiring},
	}
	pending := []base.Entry{{Key: []byte("own"), Meta: expiring}}
	for _, reverse := range []bool{false, true} {
		var clock countingClock
		var v Visible
		v.Init([]Input{{Source: newSliceSource(committed, reverse, true)},
			{Source: newSliceSource(pending, reverse, true), Pending: true}},
			reverse, nil, nil, Snapshot{At: 5, Clock: &clock})
		if !v.Seek(nil) || string(v.Entry.Key) != "overwritten" || v.Next() {
			t.Errorf("reverse %v: at %q", reverse, v.Entry.Key)
		}
		if clock.asked != 1 || clock.askedPending != 1 {
			t.Errorf("reverse %v: asked %d times, %d of them of its own write; want that alone", reverse, clock.asked, clock.askedPending)
		}
		clock = countingClock{}
		v.Init([]Input{{Source: newSliceSource(committed, reverse, true)}}, reverse, nil, nil,
			Snapshot{At: 5, Clock: &clock, Cover: hideAll(4)})
		if v.Seek(nil) || clock.asked != 0 {
			t.Errorf("reverse %v: asked %d times of what a range deletion hides", reverse, clock.asked)
		}
	}
}

// hideAll is a range tombstone over all keys.
type hideAll base.SeqNum

func (c hideAll) At([]byte) (base.SeqNum, []byte) { return base.SeqNum(c), nil }

// TestSeek_AsksForAsManyEntriesAsRecentIterationsRead counts what a source decodes.
func TestSeek_AsksForAsManyEntriesAsRecentIterationsRead(t *testing.T) {
	t.Parallel()
	entries := make([]base.Entry, 200)
	for i := range entries {
		entries[i] = base.Entry{Key: fmt.Appendf(nil, "%04d", i), Seq: 3, Meta: base.Meta{Kind: base.KindSet}}
	}
	var v Visible
	// read returns the number of entries decoded, and of fills, by a reader of n entries.
	read := func(n int, upper []byte) (decoded, fills int) {
		s := newSliceSource(entries, false, true)
		v.Init([]Input{{Source: s}}, false, nil, upper, Snapshot{At: 5})
		ok := v.Seek([]byte("0100"))
		for i := 1; ok && i < n; i++ {
			ok = v.Next()
		}
		v.Clear()
		return s.at - 100, s.fills
	}
	for _, step := range []struct {
		reads, decoded, fills int
		upper                 string
	}{
		{reads: 10, decoded: 12, fills: 2}, // nothing is known yet
		{reads: 10, decoded: 12, fills: 2}, // one length is no habit
		{reads: 10, decoded: 10, fills: 1},
		{reads: 1, decoded: 10, fills: 1},
		{reads: 1, decoded: 1, fills: 1},
		{reads: 90, decoded: 95, fills: 7}, // a long one: 1, 2, 4, 8, 16, 32, 32
		{reads: 1, decoded: 1, fills: 1},   // does not change the habit
		{reads: 90, decoded: 95, fills: 7},
		{reads: 90, decoded: 95, fills: 7},
		{reads: 90, decoded: 90, fills: 3},  // two in turn do: 32, 32, 26
		{reads: 91, decoded: 100, fills: 4}, // one more than the habit: 32, 32, 26, 10 to the end
		// A reader that reaches the end has looked for one more entry.
		{reads: 10, upper: "0103", decoded: 32, fills: 1},
		{reads: 10, upper: "0103", decoded: 4, fills: 1},
	} {
		var upper []byte
		if step.upper != "" {
			upper = []byte(step.upper)
		}
		decoded, fills := read(step.reads, upper)
		if decoded != step.decoded || fills != step.fills {
			t.Errorf("%d entries: %d decoded in %d fills, want %d in %d", step.reads, decoded, fills, step.decoded, step.fills)
		}
	}
}

func TestVisible_AllVersionsShowsBothThatTwoBatchesDivide(t *testing.T) {
	t.Parallel()
	var entries []base.Entry
	for i := range firstWant {
		entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "k%d", i), Seq: 9, Meta: base.Meta{Kind: base.KindSet}})
	}
	last := entries[firstWant-1]
	last.Seq = 5
	entries = append(entries, last, base.Entry{Key: []byte("z"), Seq: 9, Meta: base.Meta{Kind: base.KindSet}})
	for _, all := range []bool{true, false} {
		var v Visible
		v.Init([]Input{{Source: newSliceSource(entries, false, true)}}, false, nil, nil, Snapshot{At: 9, AllVersions: all})
		n := 0
		for ok := v.Seek(nil); ok; ok = v.Next() {
			n++
		}
		if want := map[bool]int{true: firstWant + 2, false: firstWant + 1}[all]; n != want {
			t.Errorf("AllVersions %v: %d entries, want %d", all, n, want)
		}
	}
}

// A counter that is often written has very many versions until they are flushed.
func TestVisible_SeeksOverManyVersionsOfAKey(t *testing.T) {
	t.Parallel()
	const versions = 10_000
	set := base.Meta{Kind: base.KindSet}
	entries := []base.Entry{{Key: []byte("a"), Seq: 1, Meta: set}, {Key: []byte("hot\x00"), Seq: 1, Meta: set}}
	for seq := base.SeqNum(1); seq <= versions; seq++ {
		entries = append(entries, base.Entry{Key: []byte("hot"), Seq: seq, Meta: set})
	}
	for _, beside := range []bool{false, true} {
		source := newSliceSource(entries, false, true)
		in := []Input{{Source: source}}
		if beside {
			in = append(in, Input{Source: newSliceSource([]base.Entry{{Key: []byte("b"), Seq: 2, Meta: set}}, false, true)})
		}
		for _, at := range []base.SeqNum{versions, versions - 100, 1} {
			var v Visible
			v.Init(in, false, nil, nil, Snapshot{At: at})
			source.fills = 0
			var shown []string
			for ok := v.Seek(nil); ok; ok = v.Next() {
				shown = append(shown, fmt.Sprintf("%s@%d", v.Entry.Key, v.Entry.Seq))
			}
			want := []string{"a@1", fmt.Sprintf("hot@%d", at), "hot\x00@1"}
			if beside && at > 1 {
				want = slices.Insert(want, 1, "b@2")
			}
			if !slices.Equal(shown, want) {
				t.Errorf("beside %v, at %d: %q, want %q", beside, at, shown, want)
			}
			if most := 20 + (versions-int(at))/BatchSize; source.fills > most {
				t.Errorf("beside %v, at %d: %d batches, want at most %d", beside, at, source.fills, most)
			}
		}
		var v Visible
		v.Init(in, false, nil, nil, Snapshot{At: versions, AllVersions: true})
		n := 0
		for ok := v.Seek(nil); ok; ok = v.Next() {
			n++
		}
		if want := len(entries) + len(in) - 1; n != want {
			t.Errorf("beside %v: %d versions, want %d", beside, n, want)
		}
	}
}

func TestVisible_EndsAtOnceWithoutSources(t *testing.T) {
	t.Parallel()
	for _, reverse := range []bool{false, true} {
		var v Visible
		v.Init(nil, reverse, nil, nil, Snapshot{At: 5})
		if v.Seek(nil) || v.Next() || v.Valid() || v.Err() != nil {
			t.Errorf("reverse %t: it is at an entry, or %v", reverse, v.Err())
		}
	}
}
