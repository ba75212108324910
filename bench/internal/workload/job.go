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

	// Dir holds the database. Records of results omit it.
	Dir string `json:"dir,omitempty"`

	// MemoryGroup is the control group to join, empty for none. MemoryBytes is
	// its limit.
	MemoryGroup string `json:"memory_group,omitempty"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
}

// Pace is how long the timed phases last.
type Pace struct {
	Warm  time.Duration `json:"warm"`  // reads before the clock starts
	Phase time.Duration `json:"phase"` // a measured phase
	Quiet time.Duration `json:"quiet"` // idle time after which a store counts as settled
	Limit time.Duration `json:"limit"` // the longest wait for a store to settle

	// Processes is how many new processes measure a first pass.
	Processes int `json:"processes,omitempty"`
}

// idlePause is the longest time that any of the stores waits before it begins
// idle work. It is stoat's. A store that was quiet for less may not be settled.
const idlePause = time.Second

// PhaseMin is the shortest phase of a full comparison.
const PhaseMin = 5 * time.Second

// fresh returns the length of a phase right after a load. It is short, because
// background jobs soon end the state that it measures.
func (p Pace) fresh() time.Duration { return min(p.Phase/2, time.Second) }

// FullPace is the pace of the full comparison.
func FullPace() Pace {
	return Pace{Warm: 500 * time.Millisecond, Phase: PhaseMin, Quiet: 2 * idlePause, Limit: time.Minute, Processes: 5}
}

// QuickPace is the pace of a first impression.
func QuickPace() Pace {
	return Pace{Warm: 50 * time.Millisecond, Phase: 150 * time.Millisecond, Quiet: idlePause * 5 / 4, Limit: 10 * time.Second, Processes: 3}
}

// SmokePace is the pace of a correctness check. Its Quiet is shorter than
// idlePause, so a store may not be settled.
func SmokePace() Pace {
	return Pace{Warm: 5 * time.Millisecond, Phase: 20 * time.Millisecond, Quiet: 200 * time.Millisecond, Limit: 2 * time.Second, Processes: 1}
}

// A Status says how a job ended.
type Status string

// The ways a job ends. Only an OK result has figures to compare.
const (
	OK          Status = "ok"
	Wrong       Status = "wrong"       // the store gave a wrong answer
	Failed      Status = "failed"      // an error or a crash
	Killed      Status = "killed"      // the system killed the process, for lack of memory
	TimedOut    Status = "timeout"     // the parent ended the process
	Skipped     Status = "skipped"     // not possible or not meaningful here
	Unavailable Status = "unavailable" // the program was built without the store
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
	Stats   string                     `json:"stats,omitempty"` // the store's own statistics
}
