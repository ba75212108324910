package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestBuckets_CoverAllDurationsInOrder(t *testing.T) {
	t.Parallel()
	last := -1
	for i := range buckets {
		top := bucketTop(i)
		if top > math.MaxInt64 {
			t.Fatalf("bucket %d ends at %d", i, top)
		}
		if got := bucketOf(top); got != i {
			t.Errorf("%d is in bucket %d, want %d", top, got, i)
		}
		if got := bucketOf(top + 1); got != i+1 {
			t.Errorf("%d is in bucket %d, want %d", top+1, got, i+1)
		}
		last = i
	}
	if got := bucketOf(math.MaxInt64); got != last {
		t.Errorf("the longest duration is in bucket %d, want %d", got, last)
	}
}

func TestQuantiles_AtMostAnEighthTooHigh(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 3, 10, 999, 1000, 1001, 20_000} {
		var h Histogram
		all := make([]time.Duration, n)
		total := time.Duration(0)
		for i := range all {
			all[i] = time.Duration(math.Exp(rng.Float64() * 25))
			total += all[i]
			h.Add(all[i])
		}
		slices.Sort(all)
		s := h.Summary()
		if s.Count != uint64(n) || s.Total != total || s.Max != all[n-1] || s.Mean() != total/time.Duration(n) {
			t.Errorf("%d durations of %v in all, %v at most: %+v", n, total, all[n-1], s)
		}
		for _, q := range []struct {
			got   time.Duration
			share float64
		}{{s.P50, 0.5}, {s.P90, 0.9}, {s.P99, 0.99}, {s.P999, 0.999}} {
			want := all[int(math.Ceil(q.share*float64(n)))-1]
			if q.got < want || q.got > want+want/8 {
				t.Errorf("%d durations, share %v: %v, want %v and an eighth at most", n, q.share, q.got, want)
			}
		}
	}
}

func TestHistogram_EmptyIsAllZero(t *testing.T) {
	t.Parallel()
	var h Histogram
	if s := h.Summary(); s != (Summary{}) || s.Mean() != 0 {
		t.Errorf("%+v", s)
	}
}

func TestHistogram_CountsANegativeDurationAsZero(t *testing.T) {
	t.Parallel()
	var h Histogram
	h.Add(-time.Second)
	if s := h.Summary(); s != (Summary{Count: 1}) {
		t.Errorf("%+v", s)
	}
}

func TestHistogram_ManyGoroutines(t *testing.T) {
	t.Parallel()
	var h Histogram
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := range 1000 {
				h.AddMany(time.Duration(i*4+w), 2)
			}
		})
	}
	workers.Wait()
	if s := h.Summary(); s.Count != 8000 || s.Max != 3999 || s.Total != 3999*4000 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkAdd(b *testing.B) {
	var h Histogram
	for i := range b.N {
		h.Add(time.Duration(i & 0xfffff))
	}
}
