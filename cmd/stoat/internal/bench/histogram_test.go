package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramBucketsCoverEveryDuration(t *testing.T) {
	t.Parallel()
	last := -1
	for _, v := range []uint64{0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 1000, 1 << 20, 1<<40 + 12345, 1<<63 - 1} {
		i := bucketOf(v)
		if i < last || i >= len(histogram{}.buckets) {
			t.Fatalf("bucketOf(%d) = %d after %d", v, i, last)
		}
		last = i
		top := bucketTop(i)
		if top < v || float64(top) > float64(v)*(1+1.0/(1<<subBits)) {
			t.Errorf("the bucket of %d ends at %d", v, top)
		}
		if i > 0 && bucketTop(i-1) >= v {
			t.Errorf("the bucket before that of %d ends at %d", v, bucketTop(i-1))
		}
	}
}

func TestHistogramQuantilesAreNearTheTrueOnes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var a, b histogram
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(r.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		if i%2 == 0 {
			a.add(d)
		} else {
			b.add(d)
		}
	}
	a.merge(&b)
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999} {
		got, want := a.quantile(q), all[int(q*float64(len(all)))]
		if got < want || float64(got) > float64(want)*1.04+1 {
			t.Errorf("quantile %g is %v, want %v", q, got, want)
		}
	}
	if got := a.quantile(1); got != all[len(all)-1] {
		t.Errorf("the maximum is %v, want %v", got, all[len(all)-1])
	}
	var empty histogram
	if got := empty.quantile(0.99); got != 0 {
		t.Errorf("the quantile of nothing is %v", got)
	}
}
