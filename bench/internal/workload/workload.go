package workload

import "slices"

// A Workload is one measurement of a store.
type Workload struct {
	Name  string
	Title string

	// Data are the datasets it runs on.
	Data []string

	// Fresh: the workload loads an empty directory. Keeps: later workloads read
	// the directory. A workload that is not Fresh uses the directory of a Keeps
	// workload. If it Changes the data, it uses a copy, which the workloads of
	// one repeat share.
	Fresh, Keeps, Changes bool

	// Heavy workloads run in fewer repeats than the others.
	Heavy bool

	// Limited workloads run under a memory limit.
	Limited bool

	run func(r *Run) error
}

// sized are the datasets with the three sizes of values.
var sized = []string{"128", "1k", "16k"}

// All lists the workloads in the order in which they run on one dataset.
func All() []Workload {
	return []Workload{
		{Name: "populate", Title: "Load in synced batches", Data: sized, Fresh: true, Keeps: true, Heavy: true, run: runPopulate},
		{Name: "open", Title: "Open and close", Data: sized, run: runOpen},
		{Name: "get", Title: "Random reads", Data: sized, run: runGet},
		{Name: "scan", Title: "Full scans", Data: sized, run: runScan},
		{Name: "seek", Title: "Seek and read 10", Data: sized, run: runSeek},
		{Name: "mixed-95", Title: "Mixed 95/5, Zipf", Data: []string{"1k"}, Changes: true, run: runMixed95},
		{Name: "mixed-50", Title: "Mixed 50/50, Zipf", Data: []string{"1k"}, Changes: true, run: runMixed50},
		{Name: "commit", Title: "Durable one-key commits", Data: []string{"128"}, Fresh: true, run: runCommit},
		{Name: "sorted", Title: "Sorted load", Data: []string{"128"}, Fresh: true, Heavy: true, run: runSorted},
		{Name: "unique", Title: "Load of new keys", Data: []string{"16k"}, Fresh: true, Heavy: true, run: runUnique},
		{Name: "json", Title: "Load of compressible text", Data: []string{"json"}, Fresh: true, Heavy: true, run: runJSON},
		{Name: "delete", Title: "Delete all", Data: []string{"1k-quarter"}, Fresh: true, Heavy: true, run: runDelete},
		{Name: "churn", Title: "Overwrite three times", Data: []string{"1k"}, Fresh: true, Heavy: true, run: runChurn},
		{Name: "queue", Title: "Pop the first key beside an appender", Data: []string{"128"}, Fresh: true, run: runQueue},
		{Name: "limited-load", Title: "Load under a memory limit", Data: []string{"limited"}, Fresh: true, Keeps: true, Heavy: true, Limited: true, run: runLimitedLoad},
		{Name: "limited-read", Title: "Cold reads under a memory limit", Data: []string{"limited"}, Heavy: true, Limited: true, run: runLimitedRead},
	}
}

// Find returns the workload with the given name.
func Find(name string) (Workload, bool) {
	all := All()
	i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == name })
	if i < 0 {
		return Workload{}, false
	}
	return all[i], true
}
