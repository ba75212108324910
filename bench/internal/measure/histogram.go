package measure

import (
	"math"
	"math/bits"
	"time"
)

// A Histogram counts durations in buckets whose width grows with the duration.
// It has 32 buckets for every power of two, so a percentile is at most about 3 %
// too large. A Histogram is for one goroutine; Merge combines several.
type Histogram struct {
	counts  [bucketGroups * bucketsPerGroup]uint64
	total   uint64
	largest time.Duration
}

const (
	bucketBits      = 5
	bucketsPerGroup = 1 << bucketBits
	bucketGroups    = 64 - bucketBits
)

// bucket returns the index for a duration of ns nanoseconds. Each duration below
// bucketsPerGroup has its own bucket. The leading bucketBits+1 bits of a longer
// one select its bucket.
func bucket(ns uint64) int {
	if ns < bucketsPerGroup {
		return int(ns)
	}
	shift := bits.Len64(ns) - bucketBits - 1
	return (shift+1)<<bucketBits + int(ns>>shift) - bucketsPerGroup
}

// upper returns the longest duration of bucket i.
func upper(i int) time.Duration {
	if i < bucketsPerGroup {
		return time.Duration(i)
	}
	shift := i>>bucketBits - 1
	mantissa := uint64(i&(bucketsPerGroup-1) + bucketsPerGroup)
	return time.Duration((mantissa+1)<<shift - 1)
}

// Record adds one duration.
func (h *Histogram) Record(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	h.total++
	h.largest = max(h.largest, d)
}

// Merge adds the durations of other.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.largest = max(h.largest, other.largest)
}

// Count returns the number of durations recorded.
func (h *Histogram) Count() uint64 { return h.total }

// Max returns the longest duration recorded, exactly.
func (h *Histogram) Max() time.Duration { return h.largest }

// Quantile returns the shortest duration that a share q of the recorded durations
// does not exceed, and 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	// The share is slightly reduced, so that a product that rounding made larger than a
	// whole number does not count as the next one.
	const exact = 1 - 1e-12
	rank := max(uint64(math.Ceil(q*exact*float64(h.total))), 1) // from 1
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(upper(i), h.largest)
		}
	}
	return h.largest
}
