package measure

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogram_BucketsCoverDurationsInOrder(t *testing.T) {
	t.Parallel()
	last := -1
	for _, ns := range []uint64{0, 1, 31, 32, 33, 63, 64, 66, 127, 128, 1000, 1 << 20, 1<<20 + 1<<15, 1 << 40, 1<<63 - 1} {
		i := bucket(ns)
		if i <= last {
			t.Errorf("bucket(%d) = %d, want above %d", ns, i, last)
		}
		if up := upper(i); uint64(up) < ns {
			t.Errorf("bucket(%d) = %d ends at %d, below the duration", ns, i, up)
		}
		if i > 0 && uint64(upper(i-1)) >= ns {
			t.Errorf("bucket(%d) = %d, but the one before ends at %d", ns, i, upper(i-1))
		}
		last = i
	}
}

func TestHistogram_QuantileIsWithinThreePercent(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var h, half Histogram
	var all []time.Duration
	for i := range 20000 {
		d := time.Duration(r.ExpFloat64() * 1e6)
		all = append(all, d)
		if i%2 == 0 {
			h.Record(d)
		} else {
			half.Record(d)
		}
	}
	h.Merge(&half)
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(int(math.Ceil(q*float64(len(all)))), 1)-1]
		got := h.Quantile(q)
		if got < want || float64(got) > float64(want)*1.033+1 {
			t.Errorf("quantile %v is %v, want %v to 3 %% above", q, got, want)
		}
	}
	if h.Max() != all[len(all)-1] || h.Count() != uint64(len(all)) {
		t.Errorf("max %v of %d, want %v of %d", h.Max(), h.Count(), all[len(all)-1], len(all))
	}
}

func TestHistogram_QuantileIsTheShortestThatTheShareDoesNotExceed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, want int
		q       float64
	}{
		{100, 99, 0.99}, {100, 50, 0.5}, {100, 100, 0.999}, {100, 100, 1}, {100, 1, 0}, {101, 100, 0.99}, {3, 2, 0.5},
		{1000, 999, 0.999}, {1, 1, 0.5}, {100, 7, 0.07}, // 0.07 × 100 is rounded to more than 7
	} {
		var h Histogram
		for i := range c.n {
			h.Record(time.Duration(10 + cmp.Compare(i+1, c.want)))
		}
		if got := h.Quantile(c.q); got != 10 {
			t.Errorf("quantile %v of %d durations is %v, want number %d: 10ns", c.q, c.n, got, c.want)
		}
	}
}

func TestHistogram_EmptyHasNoQuantile(t *testing.T) {
	t.Parallel()
	var h Histogram
	if q := h.Quantile(0.99); q != 0 {
		t.Errorf("quantile of nothing is %v, want 0", q)
	}
}
