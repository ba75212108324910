package guard

import (
	"math"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/report"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// The cost that encryption may add, as a share of the cost without it.
const (
	encryptedReadLimit = 0.10      // warm reads take at most 1.1 times as long
	encryptedLoadLimit = 1/0.7 - 1 // loads reach at least 0.7 of the rate
)

// EncryptedRule judges each row by an interval of 95 %.
var EncryptedRule = Rule{Limit: math.Inf(1), Alpha: 0.025, EachRow: true}

// EncryptedJobs returns the rows of the quick comparison. Warm reads and loads have
// limits. The other rows are only shown.
func EncryptedJobs() []Job {
	var all []Job
	for _, w := range workload.All() {
		for _, data := range w.Data {
			j := Job{workload: w.Name, data: data, figures: figuresOf(w.Name, data)}
			if d, ok := workload.FindDataset(data); ok && !d.Limited && !d.Growth && j.figures != nil {
				all = append(all, j)
			}
		}
	}
	return all
}

// figuresOf returns the figures that the reports show of a workload on a dataset.
func figuresOf(name, data string) []figure {
	var all []figure
	for _, section := range report.Sections() {
		for _, row := range section.Rows {
			if row.Workload == name && row.Data == data && row.PerLimit == "" {
				all = append(all, figure{metric: row.Metric, higher: row.Higher, limit: encryptedLimit(row)})
			}
		}
	}
	return all
}

// warmReads are the workloads that read what is in memory.
var warmReads = []string{"get", "scan", "seek", "json"}

// encryptedLimit returns the cost that encryption may add to a row. It is infinite
// if the row has no limit.
func encryptedLimit(row report.Row) float64 {
	switch {
	case row.Metric == "load_keys_per_s":
		return encryptedLoadLimit
	case slices.Contains(warmReads, row.Workload) && strings.HasSuffix(row.Metric, "_ns"):
		return encryptedReadLimit
	}
	return math.Inf(1)
}

// Only returns the jobs of the named workloads and datasets, and the loads whose
// data they read. Naming none of a kind means all of it.
func Only(all []Job, names []string) []Job {
	var workloads, data []string
	for _, name := range names {
		if _, ok := workload.Find(name); ok {
			workloads = append(workloads, name)
		} else {
			data = append(data, name)
		}
	}
	return choose(all, func(j Job) bool {
		return (workloads == nil || slices.Contains(workloads, j.workload)) && (data == nil || slices.Contains(data, j.data))
	})
}
