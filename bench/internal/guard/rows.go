package guard

import (
	"time"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

// A Job is a workload of stoat with the figures that the guard compares.
type Job struct {
	workload, data string
	figures        []figure
}

// A figure is a metric of a job.
type figure struct {
	metric string
	higher bool    // a higher figure is better
	limit  float64 // as Row.Limit
}

// cost returns a figure as a cost.
func (f figure) cost(v float64) float64 {
	if f.higher && v > 0 {
		return 1 / v
	}
	return v
}

// RevisionJobs compare two revisions of stoat. A job reads what an earlier one of
// the same data loaded.
var RevisionJobs = []Job{
	{"populate", "128", []figure{{metric: "load_keys_per_s", higher: true}, {metric: "settled_cpu_s"}}},
	{"get", "128", []figure{{metric: "get_1_ns"}, {metric: "get_16_ns"}, {metric: "miss_1_ns"}}},
	{"first-scan", "128", []figure{{metric: "first_whole_ns"}}},
	{"scan", "128", []figure{{metric: "scan_whole_ns"}, {metric: "keys_ns"}}},
	{"seek", "128", []figure{{metric: "seek_1_ns"}, {metric: "seek_16_ns"}}},
	{"populate", "1k", []figure{{metric: "load_keys_per_s", higher: true}, {metric: "settled_cpu_s"}}},
	{"get", "1k", []figure{{metric: "get_1_ns"}, {metric: "whole_16_ns"}}},
	{"scan", "1k", []figure{{metric: "scan_whole_ns"}, {metric: "scan_ns"}}},
	{"seek", "1k", []figure{{metric: "seek_1_ns"}}},
	{"commit", "128", []figure{{metric: "commit_1_per_s", higher: true}, {metric: "commit_64_per_s", higher: true}}},
	{"counter", "128", []figure{{metric: "counter_per_s", higher: true}}},
	{"queue", "128", []figure{{metric: "queue_0_per_s", higher: true}, {metric: "queue_10000_per_s", higher: true}}},
}

// pace has phases that are long enough to settle into, and short enough for many
// rounds: more rounds fight the noise better than longer ones.
var pace = workload.Pace{
	Warm: 100 * time.Millisecond, Phase: 300 * time.Millisecond, Quiet: 400 * time.Millisecond, Limit: 5 * time.Second, Processes: 1,
}
