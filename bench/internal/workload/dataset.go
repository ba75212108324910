package workload

import "fmt"

// A Dataset describes the keys and values of a database.
type Dataset struct {
	Name     string
	Title    string
	Values   Values
	Count    uint64 // draws at full scale
	Smallest uint64 // the fewest draws at any scale
}

// Datasets are the kinds of data the workloads run on.
var Datasets = []Dataset{
	{Name: "128", Title: "128 B × 2 M", Values: Values{Size: 128}, Count: 2_000_000, Smallest: 4000},
	{Name: "1k", Title: "1 KiB × 1 M", Values: Values{Size: 1 << 10}, Count: 1_000_000, Smallest: 2000},
	{Name: "16k", Title: "16 KiB × 100 k", Values: Values{Size: 16 << 10}, Count: 100_000, Smallest: 800},
	{Name: "json", Title: "JSON text, 1 KiB × 250 k", Values: Values{Size: 1 << 10, JSON: true}, Count: 250_000, Smallest: 2000},
	{Name: "1k-quarter", Title: "1 KiB × 250 k", Values: Values{Size: 1 << 10}, Count: 250_000, Smallest: 2000},
	{Name: "limited", Title: "1 KiB × 4 M under 1 GiB of memory", Values: Values{Size: 1 << 10}, Count: 4_000_000, Smallest: 20_000},
}

// findDataset returns the dataset with the given name.
func findDataset(name string) (Dataset, error) {
	for _, d := range Datasets {
		if d.Name == name {
			return d, nil
		}
	}
	return Dataset{}, fmt.Errorf("no dataset %q", name)
}

// Scaled returns the number of draws at a scale.
func (d Dataset) Scaled(scale float64) uint64 {
	return max(uint64(float64(d.Count)*scale), d.Smallest)
}

// batchOps returns the number of writes in a batch of a load: 1,000, or fewer
// for a small dataset, which would otherwise have too few batches.
func batchOps(count uint64) uint64 { return min(1000, max(count/32, 20)) }
