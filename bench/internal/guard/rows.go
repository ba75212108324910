package guard

import (
	"time"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

// A job is a workload of stoat with the figures that the guard compares.
type job struct {
	workload, data string
	figures        []figure
}

// A figure is a metric of a job.
type figure struct {
	metric string
	higher bool // a higher figure is better
}

// cost returns a figure as a cost.
func (f figure) cost(v float64) float64 {
	if f.higher && v > 0 {
		return 1 / v
	}
	return v
}

// jobs are the rows of a round, in order. A job reads what an earlier one of the
// same data loaded.
var jobs = []job{
	{"populate", "128", []figure{{"load_keys_per_s", true}, {"settled_cpu_s", false}}},
	{"get", "128", []figure{{"get_1_ns", false}, {"get_16_ns", false}, {"miss_1_ns", false}}},
	{"first-scan", "128", []figure{{"first_whole_ns", false}}},
	{"scan", "128", []figure{{"scan_whole_ns", false}, {"keys_ns", false}}},
	{"seek", "128", []figure{{"seek_1_ns", false}, {"seek_16_ns", false}}},
	{"populate", "1k", []figure{{"load_keys_per_s", true}, {"settled_cpu_s", false}}},
	{"get", "1k", []figure{{"get_1_ns", false}, {"whole_16_ns", false}}},
	{"scan", "1k", []figure{{"scan_whole_ns", false}, {"scan_ns", false}}},
	{"seek", "1k", []figure{{"seek_1_ns", false}}},
	{"commit", "128", []figure{{"commit_1_per_s", true}, {"commit_64_per_s", true}}},
	{"counter", "128", []figure{{"counter_per_s", true}}},
	{"queue", "128", []figure{{"queue_0_per_s", true}, {"queue_10000_per_s", true}}},
}

// pace has phases that are long enough to settle into, and short enough for many
// rounds: more rounds fight the noise better than longer ones.
var pace = workload.Pace{
	Warm: 100 * time.Millisecond, Phase: 300 * time.Millisecond, Quiet: 400 * time.Millisecond, Limit: 5 * time.Second, Processes: 1,
}
