package bench

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestChurn_ReportsSpaceAndReads(t *testing.T) {
	t.Parallel()
	for _, skew := range []float64{0, 0.99} {
		cfg := smallConfig(t)
		cfg.Overwrite, cfg.Readers, cfg.Zipf, cfg.RestMax, cfg.Buffered = 3, 2, skew, time.Millisecond, true
		var out bytes.Buffer
		cfg.Out = &out
		if err := Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"load, 3 writers, batches of 100 ", "get beside the load, 2 goroutines",
			"overwrite, 3 writers, batches of 100 ", "get beside the overwrite, 2 goroutines",
			"space at the peak ", "space at rest ", "background jobs ", "2,000 values compared",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the report lacks %q:\n%s", want, out.String())
			}
		}
		if strings.Contains(out.String(), "load: 0.00 B anonymous") {
			t.Errorf("the report says that the load used no memory:\n%s", out.String())
		}
		expectEmpty(t, cfg.Parent)
	}
}

func TestZipf_DrawsInProportionToTheRank(t *testing.T) {
	t.Parallel()
	const n, draws, skew = 1000, 200_000, 0.99
	z := newZipf(n, skew)
	r := rand.New(rand.NewPCG(1, 2))
	var seen [n]float64
	for range draws {
		seen[z.draw(r)]++
	}
	// The method is exact for the first two ranks and approximate for the others.
	for _, g := range []struct {
		from, to int
		within   float64
	}{{0, 1, 0.03}, {1, 2, 0.05}, {2, 10, 0.15}, {10, 100, 0.1}, {100, 1000, 0.1}} {
		want, got := 0.0, 0.0
		for k := g.from; k < g.to; k++ {
			want += math.Pow(float64(k+1), -skew) / z.zeta
			got += seen[k] / draws
		}
		if math.Abs(got/want-1) > g.within {
			t.Errorf("ranks %d to %d were drawn with a frequency of %.4f, want about %.4f", g.from, g.to, got, want)
		}
	}
}

// The check of all values demands that only one writer overwrites a key.
func TestChurn_EachKeyHasOneWriter(t *testing.T) {
	t.Parallel()
	for keys := 1; keys < 20; keys++ {
		for writers := 1; writers < 20; writers++ {
			cfg := smallConfig(t)
			cfg.Keys, cfg.Writers, cfg.Overwrite = keys, writers, 1
			if cfg.Validate() != nil {
				continue
			}
			_, again := (&churn{b: newBench(cfg, "")}).fillers()
			r := rand.New(rand.NewPCG(1, 2))
			owner := map[uint64]int{}
			for i := range 100 * writers {
				writer := i % writers
				n := again(r, writer, i)
				if other, known := owner[n]; known && other != writer {
					t.Fatalf("%d keys: of %d writers, both %d and %d write key %d", keys, writers, other, writer, n)
				}
				owner[n] = writer
			}
			if len(owner) == 0 {
				t.Fatal("nothing was written")
			}
		}
	}
}
