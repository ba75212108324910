package gaps

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

type clock uint64

func (c clock) NowMs() uint64 { return uint64(c) }

func reader(at base.SeqNum) Reader { return Reader{At: at, Clock: clock(1)} }

func TestIndex_FindsOnlyWhatHoldsForTheReader(t *testing.T) {
	t.Parallel()
	var x Index
	x.Add(Step{Lo: []byte("b"), Hi: []byte("f"), From: 10, Time: 50}, 20, nil)
	for _, c := range []struct {
		key  string
		at   base.SeqNum
		now  clock
		want bool
	}{
		{"b", 10, 50, true}, {"e", 99, 99, true}, {"a", 20, 50, false}, {"f", 20, 50, false},
		{"c", 9, 50, false}, {"c", 20, 49, false},
	} {
		if _, s := x.Find([]byte(c.key), Reader{At: c.at, Clock: c.now}); (s != nil) != c.want {
			t.Errorf("%+v: found %v", c, s)
		}
	}
}

func TestIndex_EarlierReadersFindEarlierRangesOfAGrowingGap(t *testing.T) {
	t.Parallel()
	var x Index
	key := func(n int) []byte { return fmt.Appendf(nil, "%04d", n) }
	x.Add(Step{Lo: []byte{}, Hi: key(0), From: 100}, 100, nil)
	const grown = 1000
	for n := 1; n <= grown; n++ {
		g, s := x.Find([]byte{1}, reader(base.SeqNum(100+n)))
		if g == nil || !g.Widest(s) {
			t.Fatalf("growth %d: no gap, or a narrow one", n)
		}
		x.Add(Step{Lo: []byte{}, Hi: key(n), From: base.SeqNum(100 + n)}, base.SeqNum(100+n), g)
	}
	if x.Len() != 1 {
		t.Fatalf("%d gaps, want one", x.Len())
	}
	for n := range grown + 1 {
		g, s := x.Find([]byte{1}, reader(base.SeqNum(100+n)))
		if s == nil || g.AsOf != 100+grown || s.From > base.SeqNum(100+n) || !bytes.Equal(s.Hi, key(int(s.From)-100)) {
			t.Fatalf("a reader at %d finds %v", 100+n, s)
		}
		if age, missed := grown-n, 100+n-int(s.From); missed > 3*age {
			t.Errorf("a reader that is %d versions old misses the last %d growths before it", age, missed)
		}
	}
	if _, s := x.Find([]byte{1}, reader(99)); s != nil {
		t.Errorf("a reader from before the gap finds %v", s)
	}
}

func TestIndex_DropsGrowthOfAGapThatWasReplaced(t *testing.T) {
	t.Parallel()
	var x Index
	x.Add(Step{Lo: []byte("a"), Hi: []byte("c"), From: 1}, 5, nil)
	g, _ := x.Find([]byte("b"), reader(5))
	x.Add(Step{Lo: []byte("a"), Hi: []byte("d"), From: 1}, 6, g)
	x.Add(Step{Lo: []byte("a"), Hi: []byte("z"), From: 1}, 7, g)
	if _, s := x.Find([]byte("b"), reader(9)); s == nil || string(s.Hi) != "d" {
		t.Errorf("found %v", s)
	}
}

// TestIndex_IsBoundedDisjointAndTellsWhatItWasTold adds random ranges. Of each key, the
// index may say what one of the additions said.
func TestIndex_IsBoundedDisjointAndTellsWhatItWasTold(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var x Index
		type told struct {
			s    Step
			asOf base.SeqNum
		}
		var all []told
		long := bytes.Repeat([]byte("long "), rng.IntN(150))
		for n := range 3000 {
			key := func() []byte { return fmt.Appendf(nil, "%04d%s", rng.IntN(10_000), long) }
			s := Step{Lo: key(), Hi: key(), From: base.SeqNum(n), Time: uint64(rng.IntN(2))}
			if rng.IntN(2) == 0 {
				s.Hi = append(bytes.Clone(s.Lo), byte('0'+rng.IntN(10)))
			}
			if rng.IntN(100) == 0 {
				s.Hi = nil
			}
			asOf := base.SeqNum(n + rng.IntN(10))
			var on *Gap
			if g, w := x.Find(s.Lo, reader(base.SeqNum(n))); g != nil && rng.IntN(2) == 0 && g.Widest(w) {
				on, s.Lo, s.Hi = g, w.Lo, w.Hi
				if s.Hi != nil {
					s.Hi = append(bytes.Clone(s.Hi), '0')
				}
			}
			x.Add(s, asOf, on)
			all = append(all, told{s, asOf})
		}
		sum, last := 0, []byte{}
		for _, g := range x.load() {
			w := g.widest()
			if last == nil || bytes.Compare(w.Lo, last) < 0 || !before(w.Lo, w.Hi) {
				t.Fatalf("a gap from %.20q to %.20q after one up to %.20q", w.Lo, w.Hi, last)
			}
			last = w.Hi
			for i := range g.steps {
				s := &g.steps[i]
				if i > 0 && (bytes.Compare(g.steps[i-1].Lo, s.Lo) < 0 || beyond(g.steps[i-1].Hi, s.Hi) || g.steps[i-1].From > s.From) {
					t.Fatalf("step %d does not contain the one before it", i)
				}
				known := false
				for _, a := range all {
					known = known || a.asOf == g.AsOf && a.s.Contains(s.Lo) && !beyond(s.Hi, a.s.Hi)
				}
				if !known {
					t.Fatalf("no reader told of %.20q to %.20q as of %d", s.Lo, s.Hi, g.AsOf)
				}
			}
			sum += g.bytes()
		}
		if x.Len() > countMax || sum > bytesMax || sum != x.bytes {
			t.Fatalf("%d gaps, %d bytes, counted %d", x.Len(), sum, x.bytes)
		}
	}
}
