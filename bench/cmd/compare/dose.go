package main

import (
	"time"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

// A dose is how much of the comparison runs: what holds unless a flag says
// otherwise.
type dose struct {
	name     string // of the results
	passing  bool   // the results are not worth keeping: the next run replaces them
	repeats  int
	scale    float64
	pace     workload.Pace
	budget   time.Duration // the run ends after it
	jobLimit time.Duration // a job that takes longer is ended
}

// passingNames are those of the doses whose results are not worth keeping.
var passingNames = []string{"quick", "smoke"}

// dose returns the dose that was asked for.
func (f flags) dose() dose {
	switch {
	case f.quick:
		return dose{
			name: "quick", passing: true, repeats: 1, scale: 0.03, pace: workload.QuickPace(),
			budget: 9 * time.Minute, jobLimit: time.Minute,
		}
	case f.smoke:
		return dose{
			name: "smoke", passing: true, repeats: 1, scale: 0.01, pace: workload.SmokePace(),
			budget: 9 * time.Minute, jobLimit: time.Minute,
		}
	}
	return dose{
		name: time.Now().Format("2006-01-02"), repeats: 2, scale: 1, pace: workload.FullPace(),
		budget: 85 * time.Minute, jobLimit: 15 * time.Minute,
	}
}
