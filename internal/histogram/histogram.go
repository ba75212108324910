package histogram

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// subBits sets the precision. Each power of two has 2^subBits buckets, so a
// quantile is at most an eighth too high.
const subBits = 3

// buckets is the number of buckets for all durations that an int64 holds.
const buckets = (64 - subBits) << subBits

// A Histogram counts durations by length. Its zero value is empty. Many
// goroutines may use it at once.
type Histogram struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Int64
	max    atomic.Int64
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) { h.AddMany(d, 1) }

// AddMany counts a duration n times, for a caller that measures only every n-th
// one.
func (h *Histogram) AddMany(d time.Duration, n uint64) {
	d = max(d, 0)
	h.counts[bucketOf(uint64(d))].Add(n)
	h.sum.Add(int64(d) * int64(n))
	for most := h.max.Load(); int64(d) > most; most = h.max.Load() {
		if h.max.CompareAndSwap(most, int64(d)) {
			return
		}
	}
}

// bucketOf returns the index of the bucket for v. Each value below 2^subBits has
// its own bucket.
func bucketOf(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return shift<<subBits + int(v>>shift)
}

// bucketTop returns the largest value in bucket i.
func bucketTop(i int) uint64 {
	if i < 2<<subBits {
		return uint64(i)
	}
	shift := i>>subBits - 1
	return uint64(i-shift<<subBits+1)<<shift - 1
}
