package compact

import (
	"math/rand/v2"
	"testing"
)

// The test feeds flushes of 32 MiB and picks after each until nothing is due. The bytes written
// are those of the log, the flushes and the merges, per user byte. The depth is the number of
// runs of level 0 that may hold a key.
func TestSimulation_LoadsStayWithinTheirBudgets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		bytes      int64
		sequential bool
		written    float64 // at most, per byte of the user
		depth      int
	}{
		{"uniform 300 MB", 300e6, false, 2.6, 12},
		{"uniform 1.5 GB", 1500e6, false, 4.5, 14},
		{"uniform 20 GB", 20e9, false, 12, 14},
		{"sequential 300 MB", 300e6, true, 2.2, 2},
		{"sequential 1.5 GB", 1500e6, true, 2.2, 2},
		{"sequential 20 GB", 20e9, true, 2.2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && c.bytes > 2e9 {
				t.Skip("a long simulation")
			}
			const flush, grain = 32 << 20, 64 << 10
			tr := newTree(Shape{BaseSizeMin: 8 * flush}, grain)
			tr.quick = c.bytes > 2e9
			rng := rand.New(rand.NewPCG(1, 2))
			key := uniform(rng)
			if c.sequential {
				key = func(int) uint64 { return uint64(tr.seq) }
			}
			var debt int64
			for tr.user < c.bytes {
				tr.flush(tr.random(flush/grain, key))
				tr.advance()
				debt = max(debt, Debt(tr.v, tr.s))
				tr.settle(t)
			}
			busy := tr.merged
			written := 1.05 + float64(tr.flushed+busy)/float64(tr.user)
			t.Logf("written %.2f  depth %d  largest input %d MB  debt %d MB  steps %d %v\n  %s", written,
				tr.deepest, tr.tempMax>>20, debt>>20, tr.steps, tr.reasons, tr)
			tr.s.Idle = true
			tr.settle(t)
			t.Logf("idle: %d MB more, %s", (tr.merged-busy)>>20, tr)
			if written > c.written {
				t.Errorf("%.2f bytes written for each of the user, at most %.2f", written, c.written)
			}
			if tr.deepest > c.depth {
				t.Errorf("%d runs deep, at most %d", tr.deepest, c.depth)
			}
			if tr.tempMax > tr.s.InputMax*4/3 {
				t.Errorf("a merge of %d MB", tr.tempMax>>20)
			}
			if n := len(runsOf(tr.v)); n > 1 {
				t.Errorf("%d runs after idling", n)
			}
		})
	}
}

// seeds returns the number of random cases of a test: n, or a tenth with -short.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 10
	}
	return n
}
