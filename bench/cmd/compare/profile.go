package main

import (
	"time"

	"github.com/stoatdb/stoat/bench/internal/interval"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// A profile sets the size of a run: full, quick or smoke. Flags override some
// of its values.
type profile struct {
	name      string // of the results
	transient bool   // the next run replaces the results
	repeats   int
	scale     float64
	pace      workload.Pace
	budget    time.Duration // the run ends after this time
	jobLimit  time.Duration // a job that takes longer is ended
}

// transientNames are the names of the results that the next run replaces.
var transientNames = []string{"quick", "smoke"}

// profile returns the profile that the flags select.
func (f flags) profile() profile {
	switch {
	case f.quick:
		return profile{
			name: "quick", transient: true, repeats: 1, scale: 0.03, pace: workload.QuickPace(),
			budget: 9 * time.Minute, jobLimit: time.Minute,
		}
	case f.smoke:
		return profile{
			name: "smoke", transient: true, repeats: 1, scale: 0.01, pace: workload.SmokePace(),
			budget: 9 * time.Minute, jobLimit: time.Minute,
		}
	}
	return profile{
		name: time.Now().Format("2006-01-02"), repeats: interval.SamplesMin, scale: 1, pace: workload.FullPace(),
		budget: 12 * time.Hour, jobLimit: 40 * time.Minute,
	}
}
