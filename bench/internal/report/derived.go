package report

import "math"

// A derivation computes a metric from recorded ones. So older records have it too.
type derivation struct {
	from  []string // the recorded metrics
	value func(from []float64) float64
}

// derivations holds them by workload and metric.
var derivations = map[metricKey]derivation{
	// The operations of the load, divided by the time until the background work after it ended.
	{"limited-load", "settled_keys_per_s"}: {
		[]string{"load_keys_per_s", "load_s", "settle_s"},
		func(m []float64) float64 { return m[0] * m[1] / (m[1] + m[2]) },
	},
	{"churn", "written_settled_s"}: {
		[]string{"write_s", "settle_s"},
		func(m []float64) float64 { return m[0] + m[1] },
	},
	// Both counts are of the process, because the device was not read at the end of the load.
	// They count whole folios, so digits beyond the second mean nothing.
	{"populate", "after_load_written_per_user_byte"}: {
		[]string{"settled_process_written_mb", "load_written_mb", "load_mb_per_s", "load_s"},
		func(m []float64) float64 { return max(math.Round(100*(m[0]-m[1])/(m[2]*m[3]))/100, 0) },
	},
}

// metricOf returns a metric of a result of a workload, recorded or derived, and whether it
// is known.
func metricOf(workload string, metrics map[string]float64, name string) (float64, bool) {
	d, isDerived := derivations[metricKey{workload, name}]
	if !isDerived {
		v, ok := metrics[name]
		return v, ok
	}
	var from []float64
	for _, n := range d.from {
		v, ok := metrics[n]
		if !ok {
			return 0, false
		}
		from = append(from, v)
	}
	return d.value(from), true
}
