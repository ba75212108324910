package iter

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/gaps"
)

// A passSource passes as much as a real source may, or less.
type passSource struct {
	*sliceSource
	rng    *rand.Rand
	stops  bool
	passed *int
}

func (s *passSource) Pass(bound []byte, upTo base.SeqNum) {
	for s.at >= 0 && s.at < len(s.entries) && (!s.stops || s.rng.IntN(40) > 0) {
		e := &s.entries[s.at]
		if e.Seq > upTo {
			return
		}
		step := 1
		if s.reverse {
			if step = -1; bytes.Compare(e.Key, bound) < 0 {
				return
			}
		} else if bound != nil && bytes.Compare(e.Key, bound) >= 0 {
			return
		}
		s.at += step
		*s.passed++
	}
}

// testGaps are the gaps of a reader.
type testGaps struct {
	index *gaps.Index
	at    base.SeqNum
	now   uint64
}

func (g *testGaps) NowMs() uint64 { return g.now }

func (g *testGaps) Find(key []byte) (*gaps.Gap, *gaps.Step) {
	return g.index.Find(key, gaps.Reader{At: g.at, Clock: g})
}

func (g *testGaps) Add(s gaps.Step, on *gaps.Gap) {
	if s.Time <= g.now {
		g.index.Add(s, g.at, on)
	}
}

// A history grows by bursts of commits. Long runs of its keys die.
type history struct {
	world
	rng *rand.Rand
	seq base.SeqNum
	now uint64
	// ranges says that there are range deletions. A reader that meets one takes all that it
	// passes for as new as its snapshot, which hides other mistakes.
	ranges bool
}

const historyKeys = 400

func newHistory(rng *rand.Rand) *history {
	h := &history{rng: rng, now: 1000, ranges: rng.IntN(2) == 0}
	h.sources = make([][]base.Entry, 2+rng.IntN(4)) // the first one is for pending writes
	h.own = true
	return h
}

func (h *history) key(n int) []byte { return fmt.Appendf(nil, "k%03d", n) }

func (h *history) add(n int, m base.Meta) {
	h.seq++
	s := 1 + h.rng.IntN(len(h.sources)-1)
	h.sources[s] = append(h.sources[s], base.Entry{Key: h.key(n), Value: fmt.Appendf(nil, "v%d", h.seq), Seq: h.seq, Meta: m})
}

// burst writes to a run of keys, or to a few keys anywhere.
func (h *history) burst() {
	from := h.rng.IntN(historyKeys)
	to := min(historyKeys, from+h.rng.IntN(historyKeys))
	h.now += h.rng.Uint64N(20)
	set, gone := base.Meta{Kind: base.KindSet}, base.Meta{Kind: base.KindDelete}
	switch h.rng.IntN(8) {
	case 0:
		for n := from; n < to; n++ {
			h.add(n, set)
		}
	case 1, 2, 3:
		for n := from; n < to; n++ {
			h.add(n, gone)
		}
	case 4:
		for n := from; n < to; n++ {
			h.add(n, base.Meta{Kind: base.KindSet, ExpiresAt: h.now + h.rng.Uint64N(40)})
		}
	case 5:
		if !h.ranges {
			return
		}
		h.seq++
		h.deleted = append(h.deleted, deletion{h.key(from), h.key(to), h.seq})
	default:
		for range 1 + h.rng.IntN(3) {
			h.add(h.rng.IntN(historyKeys), []base.Meta{set, gone}[h.rng.IntN(2)])
		}
	}
}

// read compares one reader with the obvious answer.
func (h *history) read(t *testing.T, v *Visible, index *gaps.Index, passed *int) {
	back := h.rng.ExpFloat64() * 30
	if h.rng.IntN(4) == 0 {
		back *= 20 // before some bursts
	}
	at := h.seq - min(h.seq, base.SeqNum(back))
	now := h.now - h.rng.Uint64N(30)*uint64(h.rng.IntN(2))
	reverse := h.rng.IntN(2) == 0
	h.sources[0] = nil
	for n := range h.rng.Perm(historyKeys)[:h.rng.IntN(2)*h.rng.IntN(60)] {
		h.sources[0] = append(h.sources[0], base.Entry{Key: h.key(n), Meta: base.Meta{Kind: []base.Kind{base.KindSet, base.KindDelete}[h.rng.IntN(2)]}})
	}
	bound := func() []byte {
		if h.rng.IntN(3) > 0 {
			return nil
		}
		return h.key(h.rng.IntN(historyKeys))
	}
	lower, upper := bound(), bound()
	snap := Snapshot{At: at, Clock: fixedClock(now), Gaps: &testGaps{index, at, now}}
	if len(h.deleted) > 0 {
		snap.Cover = newSliceCover(t, h.deleted, at, reverse)
	}
	inputs := h.inputs(reverse, h.rng.IntN(2) == 0)
	for i := range inputs {
		inputs[i].Source = &passSource{inputs[i].Source.(*sliceSource), h.rng, true, passed}
	}
	v.Init(inputs, reverse, lower, upper, snap)
	for range 2 {
		seek := bound()
		if snap.Cover != nil {
			snap.Cover.(*sliceCover).last = nil
		}
		var got []string
		for ok := v.Seek(seek); ok; ok = v.Next() {
			got = append(got, describe(*v.Entry))
		}
		if want := h.expect(snap, reverse, lower, upper, seek); !slices.Equal(got, want) {
			t.Fatalf("at %d of %d, time %d of %d, reverse %v, [%s,%s), seek %s\n got %q\nwant %q",
				at, h.seq, now, h.now, reverse, lower, upper, seek, got, want)
		}
		if v.Err() != nil {
			t.Fatal(v.Err())
		}
	}
}

func TestGaps_ChangeNoAnswer(t *testing.T) {
	t.Parallel()
	histories := 40
	if testing.Short() {
		histories = 5
	}
	var v Visible
	passed := 0
	for seed := range histories {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		h := newHistory(rng)
		var index gaps.Index
		for range 25 {
			h.burst()
			for range 4 {
				h.read(t, &v, &index, &passed)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if passed < 100*histories {
		t.Errorf("the readers passed %d entries by gaps in %d histories; want more", passed, histories)
	}
}

func TestGaps_AQueueIsPassedWithoutAWalk(t *testing.T) {
	t.Parallel()
	for _, reverse := range []bool{false, true} {
		var entries []base.Entry
		const keys, dead = 3000, 2000
		for n := range keys {
			key := n
			if reverse {
				key = keys - n
			}
			e := base.Entry{Key: fmt.Appendf(nil, "%04d", key), Seq: base.SeqNum(n + 1), Meta: base.Meta{Kind: base.KindSet}}
			entries = append(entries, e)
			if n < dead {
				e.Seq, e.Meta.Kind = base.SeqNum(keys+n+1), base.KindDelete
				entries = append(entries, e)
			}
		}
		var index gaps.Index
		var v Visible
		rng, passed := rand.New(rand.NewPCG(1, 1)), 0
		fills := 0
		for popped := dead / 2; popped < dead; popped++ {
			s := &passSource{newSliceSource(entries, reverse, true), rng, false, &passed}
			at := base.SeqNum(keys + popped)
			v.Init([]Input{{Source: s}}, reverse, nil, nil, Snapshot{At: at, Clock: fixedClock(1), Gaps: &testGaps{&index, at, 1}})
			if !v.Seek(nil) || v.Entry.Seq != base.SeqNum(popped+1) {
				t.Fatalf("reverse %v, %d popped: at %q", reverse, popped, v.Entry.Key)
			}
			if popped > dead/2 {
				fills += s.fills
			}
		}
		// Each reader seeks, passes the gap, and walks over less than growMin entries or a
		// piece that the source did not pass.
		if fills > 7*dead/4 || index.Len() > 3 {
			t.Errorf("reverse %v: %d fills for %d readers, %d gaps", reverse, fills, dead/2, index.Len())
		}
	}
}
