package workload

import (
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
)

// A Job is one workload on one store, as the parent process describes it to
// the child that runs it.
type Job struct {
	Store    string  `json:"store"`
	Workload string  `json:"workload"`
	Data     string  `json:"data"`   // name of a Dataset
	Repeat   int     `json:"repeat"` // from 1
	Scale    float64 `json:"scale"`  // 1 is the full size
	Pace     Pace    `json:"pace"`

	// Dir holds the database. A record of results does not say where that was.
	Dir string `json:"dir,omitempty"`

	// MemoryGroup is the control group to join, empty for none, and
	// MemoryBytes its limit.
	MemoryGroup string `json:"memory_group,omitempty"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
}

// Pace is how long the timed phases last.
type Pace struct {
	Warm  time.Duration `json:"warm"`  // reading before the clock starts
	Phase time.Duration `json:"phase"` // a measured phase
	Quiet time.Duration `json:"quiet"` // without work, until a store counts as settled
	Limit time.Duration `json:"limit"` // the longest wait for that
}

// idlePause is the longest pause among the stores before one of them begins
// work that it keeps for idle times: stoat's. A store that was quiet for a
// shorter time is not known to be settled.
const idlePause = time.Second

// FullPace is that of the full comparison.
func FullPace() Pace {
	return Pace{Warm: 500 * time.Millisecond, Phase: 750 * time.Millisecond, Quiet: 2 * idlePause, Limit: time.Minute}
}

// QuickPace gives a first impression.
func QuickPace() Pace {
	return Pace{Warm: 50 * time.Millisecond, Phase: 150 * time.Millisecond, Quiet: idlePause * 5 / 4, Limit: 10 * time.Second}
}

// SmokePace shows whether everything runs, and measures nothing: its quiet is
// shorter than the pause of a store that has work left.
func SmokePace() Pace {
	return Pace{Warm: 5 * time.Millisecond, Phase: 20 * time.Millisecond, Quiet: 200 * time.Millisecond, Limit: 2 * time.Second}
}

// A Status says how a job ended.
type Status string

// The ends of a job. Only OK has figures to compare; Wrong is the worst.
const (
	OK          Status = "ok"
	Wrong       Status = "wrong"       // the store gave a wrong answer
	Failed      Status = "failed"      // an error or a crash
	Killed      Status = "killed"      // by the system, for want of memory
	TimedOut    Status = "timeout"     // by the parent
	Skipped     Status = "skipped"     // not possible or not meaningful here
	Unavailable Status = "unavailable" // the store is not in this program
)

// A Result is what a job measured.
type Result struct {
	Job     Job                        `json:"job"`
	Version string                     `json:"version,omitempty"` // of the store
	Status  Status                     `json:"status"`
	Detail  string                     `json:"detail,omitempty"` // why it is not OK
	Began   time.Time                  `json:"began"`
	Seconds float64                    `json:"seconds"` // of the whole process
	Metrics map[string]float64         `json:"metrics,omitempty"`
	Curves  map[string][]measure.Point `json:"curves,omitempty"`
	Stats   string                     `json:"stats,omitempty"` // what the store tells of itself
}
