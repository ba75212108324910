package workload

import (
	"fmt"
	"strings"
)

// A Dataset describes the keys and values of a database.
type Dataset struct {
	Name     string
	Title    string
	Values   Values
	Count    uint64 // draws at full scale
	Smallest uint64 // the fewest draws at any scale

	// Limited data is loaded and read under a memory limit.
	Limited bool

	// Growth data is one point of a series of sizes. Each key is written once.
	Growth bool
}

// Datasets are the kinds of data the workloads run on.
var Datasets = append([]Dataset{
	{Name: "128", Title: "128 B × 2 M", Values: Values{Size: 128}, Count: 2_000_000, Smallest: 4000},
	{Name: "1k", Title: "1 KiB × 1 M", Values: Values{Size: 1 << 10}, Count: 1_000_000, Smallest: 2000},
	{Name: "16k", Title: "16 KiB × 100 k", Values: Values{Size: 16 << 10}, Count: 100_000, Smallest: 800},
	{Name: "json", Title: "JSON text, 1 KiB × 250 k", Values: Values{Size: 1 << 10, JSON: true}, Count: 250_000, Smallest: 2000},
	{Name: "1k-quarter", Title: "1 KiB × 250 k", Values: Values{Size: 1 << 10}, Count: 250_000, Smallest: 2000},
	{Name: "limited", Title: "1 KiB × 4 M under 1 GiB of memory", Values: Values{Size: 1 << 10}, Count: 4_000_000, Smallest: 20_000, Limited: true},
}, growthData()...)

// growth lists the series of sizes: the names of their values, and the numbers
// of keys at full scale.
var growth = []struct {
	value string
	title string
	size  int
	keys  []uint64
}{
	{"128", "128 B", 128, []uint64{1e6, 2e6, 5e6, 10e6, 20e6, 50e6}},
	{"1k", "1 KiB", 1 << 10, []uint64{5e5, 1e6, 2e6, 5e6}},
	{"16k", "16 KiB", 16 << 10, []uint64{5e4, 1e5, 2e5, 4e5}},
}

// scaleStores are the stores that grow. The others take hours for the largest
// points.
var scaleStores = []string{"stoat", "pebble", "rocksdb"}

// growthData returns the datasets of all series.
func growthData() []Dataset {
	var all []Dataset
	for _, series := range growth {
		for i, keys := range series.keys {
			all = append(all, Dataset{
				Name: series.value + "-" + keysText(keys), Title: series.title + " × " + keysText(keys),
				Values: Values{Size: series.size}, Count: keys, Smallest: 500 << i, Growth: true,
			})
		}
	}
	return all
}

// keysText writes a number of keys in thousands or millions.
func keysText(n uint64) string {
	if n%1e6 == 0 {
		return fmt.Sprintf("%dm", n/1e6)
	}
	return fmt.Sprintf("%dk", n/1e3)
}

// scaleData names the datasets of all series.
func scaleData() []string {
	var names []string
	for _, d := range growthData() {
		names = append(names, d.Name)
	}
	return names
}

// Series returns the name of the values of a point of a series.
func (d Dataset) Series() string {
	value, _, _ := strings.Cut(d.Name, "-")
	return value
}

// IsLimited returns whether a dataset is loaded and read under a memory limit.
func IsLimited(data string) bool {
	d, ok := FindDataset(data)
	return ok && d.Limited
}

// FindDataset returns the dataset with the given name.
func FindDataset(name string) (Dataset, bool) {
	d, err := findDataset(name)
	return d, err == nil
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

// batchOps returns the number of writes in a batch of a load. It is 1,000, or fewer for a
// small dataset, which would otherwise have too few batches.
func batchOps(count uint64) uint64 { return min(1000, max(count/32, 20)) }
