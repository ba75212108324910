package benchmarks

import (
	"slices"
	"time"
)

// A stopwatch gathers how long something took, time after time.
type stopwatch struct {
	took []time.Duration
}

func (w *stopwatch) time(fn func()) {
	start := time.Now()
	fn()
	w.took = append(w.took, time.Since(start))
}

// median returns the middle duration in nanoseconds.
func (w *stopwatch) median() float64 {
	if len(w.took) == 0 {
		return 0
	}
	slices.Sort(w.took)
	return float64(w.took[len(w.took)/2].Nanoseconds())
}
