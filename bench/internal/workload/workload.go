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

	// Heavy workloads take much longer than the others.
	Heavy bool

	// Rare workloads run in one of three repeats.
	Rare bool

	// Fourfold workloads, on limited data, run with memory for a quarter of it.
	Fourfold bool

	// FirstPass workloads measure one pass of a new process. Each job runs in
	// several processes, and its figures are medians.
	FirstPass bool

	// Only are the stores that it runs on; none means all.
	Only []string

	run func(r *Run) error
}

// Runs returns whether the workload runs on a store.
func (w Workload) Runs(store string) bool { return w.Only == nil || slices.Contains(w.Only, store) }

var (
	// sized are the datasets with the three sizes of values.
	sized = []string{"128", "1k", "16k"}

	// cold are the datasets that are scanned from the device.
	cold = []string{"128", "1k", "16k", "limited"}

	limited = []string{"limited"}

	// small are the datasets of the features beside reads and writes.
	small = []string{"128", "1k"}
)

// All lists the workloads in the order in which they run on one dataset.
func All() []Workload {
	return []Workload{
		{Name: "populate", Title: "Load in synced batches", Data: sized, Fresh: true, Keeps: true, Heavy: true, run: runPopulate},
		{Name: "open", Title: "Open and close", Data: sized, run: runOpen},
		{Name: "get", Title: "Random reads", Data: sized, run: runGet},
		{Name: "first-scan", Title: "First scan of a process, whole values", Data: sized, FirstPass: true, run: firstPass(scanPhase{name: "first_whole", whole: true})},
		{Name: "first-ends", Title: "First scan of a process, ends of values", Data: sized, FirstPass: true, run: firstPass(scanPhase{name: "first_ends"})},
		{Name: "first-keys", Title: "First scan of a process, keys only", Data: sized, FirstPass: true, run: firstPass(scanPhase{name: "first_keys", keysOnly: true})},
		{Name: "scan", Title: "Full scans, warm", Data: sized, run: runScan},
		{Name: "seek", Title: "Seek and read 10", Data: sized, run: runSeek},
		{Name: "stream", Title: "Parallel read of a snapshot", Data: small, run: runStream},
		{Name: "many", Title: "100 keys at once", Data: small, run: runMany},
		{Name: "backup", Title: "Backup and restore", Data: small, run: runBackup},
		{Name: "cold-stream", Title: "Parallel read of a snapshot, cold", Data: small, FirstPass: true, run: runColdStream},
		{Name: "cold-many", Title: "100 keys at once, cold", Data: small, run: runColdMany},
		{Name: "beside", Title: "Seek and read 20 beside a writer", Data: []string{"1k"}, Changes: true, run: runBeside},
		{Name: "checkpoint", Title: "Checkpoints", Data: small, Changes: true, run: runCheckpoint},
		{Name: "mixed-95", Title: "Mixed 95/5, Zipf", Data: []string{"1k"}, Changes: true, run: runMixed95},
		{Name: "mixed-50", Title: "Mixed 50/50, Zipf", Data: []string{"1k"}, Changes: true, run: runMixed50},
		{Name: "commit", Title: "Durable one-key commits", Data: []string{"128"}, Fresh: true, run: runCommit},
		{Name: "counter", Title: "Contended counter", Data: []string{"128"}, Fresh: true, run: runCounter},
		{Name: "queue", Title: "Queue", Data: []string{"128"}, Fresh: true, run: runQueue},
		{Name: "followers", Title: "Followers", Data: []string{"128"}, Fresh: true, run: runFollow},
		{Name: "batch", Title: "Blind writes", Data: small, Fresh: true, Heavy: true, run: runBatch},
		{Name: "ingest", Title: "Ingest of sorted entries", Data: small, Fresh: true, Heavy: true, run: runIngest},
		{Name: "reopen", Title: "Scans right after reopening a load", Data: sized, Fresh: true, Heavy: true, run: runReopen},
		{Name: "sorted", Title: "Sorted load", Data: []string{"128"}, Fresh: true, Heavy: true, run: runSorted},
		{Name: "unique", Title: "Load of new keys", Data: []string{"16k"}, Fresh: true, Heavy: true, run: runUnique},
		{Name: "json", Title: "Load of compressible text", Data: []string{"json"}, Fresh: true, Heavy: true, run: runJSON},
		{Name: "delete", Title: "Delete all", Data: []string{"1k-quarter"}, Fresh: true, Heavy: true, run: runDelete},
		{Name: "churn", Title: "Overwrite three times", Data: []string{"1k"}, Fresh: true, Heavy: true, run: runChurn},
		{Name: "limited-load", Title: "Load under a memory limit", Data: limited, Fresh: true, Keeps: true, Heavy: true, run: runLimitedLoad},
		{Name: "limited-read", Title: "Cold reads under a memory limit", Data: limited, Heavy: true, run: runLimitedRead},
		{Name: "cold-scan", Title: "Cold scan, whole values", Data: cold, FirstPass: true, Fourfold: true, run: coldPass(scanPhase{name: "cold_scan", whole: true})},
		{Name: "cold-keys", Title: "Cold scan, keys only", Data: cold, FirstPass: true, Fourfold: true, run: coldPass(scanPhase{name: "cold_keys", keysOnly: true})},
		{Name: "cold-seek", Title: "Cold seeks", Data: limited, Heavy: true, Fourfold: true, run: runColdSeek},
		{Name: "cold-get", Title: "Cold gets of four times the memory", Data: limited, Heavy: true, Fourfold: true, run: runColdGet},
		{Name: "scale", Title: "Growing data", Data: scaleData(), Fresh: true, Heavy: true, Rare: true, Only: scaleStores, run: runScale},
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
