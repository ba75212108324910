package compact

import (
	"math/rand/v2"
	"testing"
)

const simFlush, simGrain = 32 << 20, 64 << 10 // bytes

// written returns the bytes of the log, the flushes and the merges, per byte of the user.
func (t *tree) written() float64 { return 1.05 + float64(t.flushed+t.merged)/float64(t.user) }

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
		{"uniform 1.5 GB", 1500e6, false, 4, 14},
		{"uniform 3 GB", 3e9, false, 4.5, 16},
		{"uniform 7.5 GB", 7500e6, false, 5, 24},
		{"uniform 20 GB", 20e9, false, 9, 24},
		{"sequential 300 MB", 300e6, true, 2.2, 2},
		{"sequential 1.5 GB", 1500e6, true, 2.2, 2},
		{"sequential 20 GB", 20e9, true, 2.2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && c.bytes > 2e9 {
				t.Skip("a long simulation")
			}
			tr := newTree(Shape{BaseSizeMin: 8 * simFlush}, simGrain)
			tr.quick = c.bytes > 2e9
			rng := rand.New(rand.NewPCG(1, 2))
			key := uniform(rng)
			if c.sequential {
				key = func(int) uint64 { return uint64(tr.seq) }
			}
			var debt int64
			for tr.user < c.bytes {
				tr.flush(tr.random(simFlush/simGrain, key))
				tr.advance()
				debt = max(debt, Debt(tr.v, tr.s))
				tr.settle(t)
			}
			busy, written := tr.merged, tr.written()
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
			// While a new level fills, few cuts match, and the smallest slice is larger.
			if tr.tempMax > tr.s.InputMax*8/5 {
				t.Errorf("a merge of %d MB", tr.tempMax>>20)
			}
			if n := len(runsOf(tr.v)); n > 1 {
				t.Errorf("%d runs after idling", n)
			}
		})
	}
}

// A database that becomes idle after each few flushes merges them. That must not rewrite the
// last level again and again.
func TestSimulation_BurstsRewriteLittle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flushes int // of a burst
		written float64
	}{{1, 13.5}, {2, 11}, {10, 8}} {
		tr := newTree(Shape{BaseSizeMin: 8 * simFlush}, simGrain)
		tr.quick = true
		key := uniform(rand.New(rand.NewPCG(1, 2)))
		for tr.user < 3e9 {
			for range c.flushes {
				tr.flush(tr.random(simFlush/simGrain, key))
				tr.advance()
				tr.settle(t)
			}
			tr.s.Idle = true
			tr.settle(t)
			tr.s.Idle = false
		}
		t.Logf("bursts of %d: written %.2f, %s", c.flushes, tr.written(), tr)
		if w := tr.written(); w > c.written {
			t.Errorf("bursts of %d flushes: %.2f bytes written for each of the user, at most %.2f", c.flushes, w, c.written)
		}
	}
}

// seeds returns the number of random cases of a test: n, or a tenth with -short.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 10
	}
	return n
}
