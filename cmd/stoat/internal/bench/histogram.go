package bench

import (
	"math/bits"
	"time"
)

// subBits sets the precision of a histogram: 2^subBits buckets for each power
// of two, so a value is known to about 3 %.
const subBits = 5

// A histogram counts durations in buckets that grow with the duration.
type histogram struct {
	buckets [(64 - subBits + 1) << subBits]uint64
	count   uint64
	max     time.Duration
}

// bucketOf returns the index of the bucket for v.
func bucketOf(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return shift<<subBits + int(v>>shift)
}

// bucketTop returns the largest value that falls into a bucket.
func bucketTop(i int) uint64 {
	if i < 2<<subBits {
		return uint64(i)
	}
	shift := i>>subBits - 1
	return uint64(i-shift<<subBits+1)<<shift - 1
}

// add counts d.
func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.buckets[bucketOf(uint64(d))]++
	h.count++
	h.max = max(h.max, d)
}

// merge adds the counts of o.
func (h *histogram) merge(o *histogram) {
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	h.count += o.count
	h.max = max(h.max, o.max)
}

// quantile returns the duration that a share q of all does not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := uint64(q * float64(h.count))
	var seen uint64
	for i, n := range h.buckets {
		if seen += n; seen > rank {
			return min(time.Duration(bucketTop(i)), h.max)
		}
	}
	return h.max
}
