package histogram

import "time"

// A Summary describes the durations that a histogram has counted.
type Summary struct {
	// Count is the number of durations, Total their sum and Max the longest.
	Count      uint64
	Total, Max time.Duration
	// P50, P90, P99 and P999 are quantiles: 50, 90, 99 and 99.9 percent of the
	// durations did not exceed them.
	P50, P90, P99, P999 time.Duration
}

// Mean returns the mean duration, or 0 if the histogram is empty.
func (s Summary) Mean() time.Duration {
	if s.Count == 0 {
		return 0
	}
	return s.Total / time.Duration(s.Count)
}

// Summary returns what the histogram has counted. It may miss durations that are
// added at the same time.
func (h *Histogram) Summary() Summary {
	s := Summary{Total: time.Duration(h.sum.Load()), Max: time.Duration(h.max.Load())}
	var counts [buckets]uint64
	for i := range h.counts {
		counts[i] = h.counts[i].Load()
		s.Count += counts[i]
	}
	if s.Count == 0 {
		return s
	}
	quantiles := []struct {
		of *time.Duration
		// rank is the 1-based position of the quantile in sorted order.
		rank uint64
	}{
		{&s.P50, rank(s.Count, 500)}, {&s.P90, rank(s.Count, 900)},
		{&s.P99, rank(s.Count, 990)}, {&s.P999, rank(s.Count, 999)},
	}
	seen, next := uint64(0), 0
	for i := 0; i < buckets && next < len(quantiles); i++ {
		for seen += counts[i]; next < len(quantiles) && seen >= quantiles[next].rank; next++ {
			*quantiles[next].of = min(time.Duration(bucketTop(i)), s.Max)
		}
	}
	return s
}

// rank returns perMille thousandths of count, rounded up.
func rank(count, perMille uint64) uint64 {
	return count/1000*perMille + (count%1000*perMille+999)/1000
}
