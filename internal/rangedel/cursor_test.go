package rangedel

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// A cursor's answer must be right for the key, and for all keys up to the bound
// that it returns.
func TestCursor_AnswerHoldsUpToItsBound(t *testing.T) {
	t.Parallel()
	each(t, 30, func(t *testing.T, rng *rand.Rand, m model, key func(*rand.Rand) []byte) {
		other := randomModel(rng, key, rng.IntN(10))
		own := randomModel(rng, key, rng.IntN(2)*rng.IntN(4))
		at := base.SeqNum(rng.IntN(40))
		const as = base.SeqNumMax + 1
		want := func(k []byte) base.SeqNum {
			if own.cover(k, base.SeqNumMax) != 0 {
				return as
			}
			return max(m.cover(k, at), other.cover(k, at))
		}
		for _, reverse := range []bool{false, true} {
			var c Cursor
			for range 2 { // the second time with the memory of the first
				c.Init(reverse)
				c.Add(Build(m), at, 0)
				c.Add(Build(other), at, 0)
				c.Add(Build(own), base.SeqNumMax, as)
				c.Add(nil, at, 0)
			}
			probes := m.probes(rng, key)
			slices.SortFunc(probes, bytes.Compare)
			checkCursor(t, &c, probes, want, rng)
		}
	})
}

// checkCursor walks over sorted keys in the cursor's direction, with occasional
// jumps.
func checkCursor(t *testing.T, c *Cursor, probes [][]byte, want func([]byte) base.SeqNum, rng *rand.Rand) {
	t.Helper()
	walk := slices.Clone(probes)
	if c.reverse {
		slices.Reverse(walk)
	}
	for _, k := range walk {
		if rng.IntN(20) == 0 {
			k = probes[rng.IntN(len(probes))]
		}
		seq, until := c.At(k)
		if until != nil && (c.reverse && bytes.Compare(until, k) > 0 || !c.reverse && bytes.Compare(until, k) <= 0) {
			t.Fatalf("reverse %v: the answer for %q holds until %q", c.reverse, k, until)
		}
		for _, other := range append(probes, k) {
			order := bytes.Compare(other, k)
			held := order >= 0 && (until == nil || bytes.Compare(other, until) < 0)
			if c.reverse {
				held = order <= 0 && (until == nil || bytes.Compare(other, until) >= 0)
			}
			if held && want(other) != seq {
				t.Fatalf("reverse %v: at %q %d until %q, but %q has %d", c.reverse, k, seq, until, other, want(other))
			}
		}
	}
}

func TestCursor_EmptyWithoutDeletionsThatCount(t *testing.T) {
	t.Parallel()
	var c Cursor
	c.Init(false)
	c.Add(nil, 10, 0)
	c.Add(Build([]Deletion{{[]byte("a"), []byte("b"), 11}}), 10, 0)
	if seq, until := c.At([]byte("a")); !c.Empty() || seq != 0 || until != nil {
		t.Errorf("Empty %v, %d until %q", c.Empty(), seq, until)
	}
}
