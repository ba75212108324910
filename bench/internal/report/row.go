package report

import (
	"cmp"
	"fmt"
)

// A Row is one line of the comparison: a metric of a workload on a dataset.
type Row struct {
	Label    string
	Workload string
	Data     string
	Metric   string
	Factor   float64 // converts the metric's unit to the label's; 0 means 1
	Higher   bool    // a higher figure is better
	Target   Target

	// PerLimit names a limit of the machine. The figure is then the metric divided by that
	// limit of the machine that measured it.
	PerLimit string

	// ReadAhead: the figure depends on the read-ahead of the machine's device.
	ReadAhead bool
}

// A Target is the figure that stoat should reach in a row.
type Target struct {
	Kind  TargetKind
	Bound float64
	Base  baseline // of the kind Own
}

// TargetKind says which figure the bound of a target limits.
type TargetKind uint8

const (
	// NoTarget: the row has no target.
	NoTarget TargetKind = iota
	// Ratio: stoat's figure divided by the best peer's.
	Ratio
	// Absolute: stoat's figure.
	Absolute
	// Own: stoat's figure divided by its own figure in another row, the Base.
	Own
)

func ratio(bound float64) Target              { return Target{Kind: Ratio, Bound: bound} }
func absolute(bound float64) Target           { return Target{Kind: Absolute, Bound: bound} }
func own(bound float64, base baseline) Target { return Target{Own, bound, base} }

// text writes the target for a row.
func (t Target) text(higher bool) string {
	sign := "≤"
	if higher {
		sign = "≥"
	}
	switch t.Kind {
	case Ratio:
		return fmt.Sprintf("%s %g × peer", sign, t.Bound)
	case Absolute:
		return fmt.Sprintf("%s %g", sign, t.Bound)
	case Own:
		return fmt.Sprintf("%s %g × its %s", sign, t.Bound, t.Base.name)
	}
	return ""
}

// A baseline is a row of stoat that another row's target compares with.
type baseline struct {
	name             string
	Workload, Metric string
	Data             string // empty for the dataset of the other row
}

// settled returns the baseline of a row that was measured right after the load.
func settled(workload, metric string) baseline {
	return baseline{name: "settled figure", Workload: workload, Metric: metric}
}

// baselineOf returns the row that the target of row compares with, in its unit.
func baselineOf(row Row) Row {
	b := row.Target.Base
	return Row{Workload: b.Workload, Metric: b.Metric, Data: cmp.Or(b.Data, row.Data), Factor: row.Factor}
}

// targetText writes the target of the row.
func (r Row) targetText() string { return r.Target.text(r.Higher) }

// A Section is a group of rows.
type Section struct {
	Title string
	Note  string
	Rows  []Row
}

// bounds are the targets that differ between the sizes of values.
type bounds struct {
	loadRate, p99, writeAmp, anon, size  Target
	get1, get16, scan, keys, seek1, seek Target
	ends, firstEnds                      Target
	longest                              Target
}

// Sections returns the rows of every report, with the targets of the project.
func Sections() []Section {
	sections := []Section{
		sizedSection("128", "128 B × 2 M", bounds{
			ratio(2), ratio(1), absolute(2.6), absolute(160), ratio(1.02),
			ratio(0.50), ratio(0.55), ratio(0.70), ratio(0.30), ratio(0.50), ratio(0.60),
			ratio(0.60), ratio(1.2),
			absolute(100),
		}),
		sizedSection("1k", "1 KiB × 1 M", bounds{
			ratio(2), ratio(0.6), absolute(2.1), absolute(160), Target{},
			ratio(0.60), ratio(0.60), ratio(0.70), ratio(0.25), ratio(0.50), ratio(0.60),
			ratio(0.50), ratio(1.2),
			absolute(100),
		}),
		sizedSection("16k", "16 KiB × 100 k", bounds{
			ratio(3), ratio(0.5), absolute(1.06), absolute(160), Target{},
			ratio(0.75), ratio(0.75), ratio(0.70), ratio(0.35), ratio(0.50), ratio(0.60),
			ratio(0.80), ratio(1.5),
			Target{}, // eight batches of 16 MB take longer than 100 ms to write
		}),
	}
	sections = append(sections, churnSection(), commitSection(), contendedSection(), mixedSection(), limitedSection(), coldSection(),
		loadsSection(), growthSection(), deleteSection())
	return append(sections, featureSections()...)
}

func sizedSection(data, title string, b bounds) Section {
	row := func(label, workload, metric string, t Target) Row {
		return Row{Label: label, Workload: workload, Data: data, Metric: metric, Target: t}
	}
	load := row("load, k keys/s", "populate", "load_keys_per_s", b.loadRate)
	load.Factor, load.Higher = 1e-3, true
	// The target for the size of small values is a ratio to the best peer. The
	// target for larger values is a ratio to the live data.
	size := row("settled size, MB", "populate", "size_mb", b.size)
	if b.size.Kind == NoTarget {
		size.Label, size.Metric, size.Target = "settled size, bytes per live byte", "size_per_live_byte", absolute(1.15)
	}
	return Section{Title: title, Note: sizedNote, Rows: []Row{
		load,
		row("load, p99 of a synced batch, ms", "populate", "load_batch_p99_ms", b.p99),
		row("load, longest batch, ms", "populate", "load_batch_max_ms", b.longest),
		row("load, bytes written per user byte, settled", "populate", "settled_written_per_user_byte", b.writeAmp),
		row("load, bytes written after its end per user byte", "populate", "after_load_written_per_user_byte", Target{}),
		row("load and first reads, processor seconds, settled", "populate", "settled_cpu_s", ratio(1)),
		row("load, peak anonymous MB", "populate", "load_peak_anon_mb", b.anon),
		row("load, peak mapped MB", "populate", "load_peak_file_mb", Target{}),
		row("load, seconds of work left after the first reads", "populate", "settle_s", Target{}),
		size,
		row("settled size, blocks allocated, MB", "populate", "allocated_mb", Target{}),
		row("open after clean close, ms", "open", "open_ms", absolute(3)),
		row("first get after open, ms", "open", "first_get_ms", Target{}),
		row("close, ms", "open", "close_ms", Target{}),
		row("get, 1 goroutine, ns (63 % hits)", "get", "get_1_ns", b.get1),
		row("get, 16 goroutines, ns", "get", "get_16_ns", b.get16),
		row("get right after the load, 1 goroutine, ns", "populate", "fresh_get_1_ns", own(1.5, settled("get", "get_1_ns"))),
		row("get right after the load, 16 goroutines, ns", "populate", "fresh_get_16_ns", own(1.5, settled("get", "get_16_ns"))),
		row("get of present keys, 1 goroutine, ns", "get", "hit_1_ns", Target{}),
		row("get of present keys, 16 goroutines, ns", "get", "hit_16_ns", Target{}),
		row("get of absent keys, 1 goroutine, ns", "get", "miss_1_ns", Target{}),
		row("get of absent keys, 16 goroutines, ns", "get", "miss_16_ns", Target{}),
		row("get, whole value read, 1 goroutine, ns", "get", "whole_1_ns", Target{}),
		row("get, whole value read, 16 goroutines, ns", "get", "whole_16_ns", Target{}),
		row("get, p99 of 1 goroutine, µs", "get", "get_1_p99_us", Target{}),
		row("get, objects allocated", "get", "get_allocations", absolute(0)),
		row("first scan of a process, whole values, ns per key", "first-scan", "first_whole_ns", ratio(0.9)),
		row("open and first scan of a process, whole values, ms", "first-scan", "first_whole_with_open_ms", Target{}),
		row("scan, whole values, warm, ns per key", "scan", "scan_whole_ns", b.scan),
		row("scan right after the load, whole values, ns per key", "populate", "fresh_whole_ns", own(1.5, settled("scan", "scan_whole_ns"))),
		row("scan right after reopening the load, whole values, ns per key", "reopen", "reopened_1_ns", ratio(1)),
		row("the fourth scan after reopening the load, ns per key", "reopen", "reopened_4_ns", ratio(1)),
		row("scan by tx.All, whole values, warm, ns per key", "scan", "all_whole_ns", own(1.05, baseline{name: "iterator", Workload: "scan", Metric: "scan_whole_ns"})),
		row("scan from the device, whole values, ns per key", "cold-scan", "cold_scan_ns", Target{}).onReadAhead(),
		row("first scan of a process, keys only, ns per key", "first-keys", "first_keys_ns", Target{}),
		row("scan, keys only, warm, ns per key", "scan", "keys_ns", b.keys),
		row("scan from the device, keys only, ns per key", "cold-keys", "cold_keys_ns", Target{}).onReadAhead(),
		row("first scan of a process, ends of values, ns per key", "first-ends", "first_ends_ns", b.firstEnds),
		row("scan, ends of values, warm, ns per key", "scan", "scan_ns", b.ends),
		row("seek + 10, 1 goroutine, ns", "seek", "seek_1_ns", b.seek1),
		row("seek + 10, 16 goroutines, ns", "seek", "seek_16_ns", b.seek),
		row("seek + 10 right after the load, 1 goroutine, ns", "populate", "fresh_seek_1_ns", own(1.5, settled("seek", "seek_1_ns"))),
	}}
}

const sizedNote = "Eight goroutines load uniformly drawn keys, of which 63 % exist, with incompressible values in synced batches of 1,000. " +
	"Background work goes on during the first reads, which take a few seconds. What is written after the end of the load includes what these reads cause. " +
	"Gets and seeks check the first and last 8 bytes of a value, as do the rows of ends; the rows of whole values check every byte. " +
	"The first scan of a process finds the files in the page cache; a warm scan repeats it in the same process. " +
	"With more goroutines than processors, ns is the time per read: the inverse of the throughput."

func churnSection() Section {
	row := func(label, metric string, t Target) Row {
		return Row{Label: label, Workload: "churn", Data: "1k", Metric: metric, Target: t}
	}
	return Section{
		Title: "1 KiB × 1 M overwritten three times",
		Note: "Eight goroutines write every key once, then three times as many random keys, in batches of 1,000 without syncs. " +
			"Then the store idles, and then the benchmark makes the store's own calls for garbage collection. " +
			"The row until settled counts the work of the idle time, in which some stores collect by themselves. The row of writes and calls leaves it out.",
		Rows: []Row{
			row("writes and calls for collection, s", "total_s", ratio(0.5)),
			row("writes until settled, without calls, s", "written_settled_s", Target{}),
			row("calls for collection alone, s", "collect_s", Target{}),
			row("highest space per live byte", "space_peak_per_live_byte", absolute(1.5)),
			row("space per live byte after idling, before any call", "space_idle_per_live_byte", absolute(1.15)),
			row("space per live byte at the end", "space_end_per_live_byte", absolute(1.15)),
			row("bytes written per user byte", "written_per_user_byte", absolute(4)),
			row("p99 of an overwriting batch, ms", "overwrite_batch_p99_ms", ratio(0.5)),
			row("longest overwriting batch, ms", "overwrite_batch_max_ms", absolute(100)),
			row("peak anonymous MB", "peak_anon_mb", absolute(256)),
		},
	}
}

func commitSection() Section {
	row := func(label, metric string, higher bool, t Target) Row {
		return Row{Label: label, Workload: "commit", Data: "128", Metric: metric, Higher: higher, Target: t}
	}
	return Section{
		Title: "Durable commits of one key of 128 B",
		Rows: []Row{
			row("commits/s, 1 goroutine", "commit_1_per_s", true, ratio(1.7)),
			row("commits/s, 16 goroutines", "commit_16_per_s", true, ratio(2.5)),
			row("commits/s, 64 goroutines", "commit_64_per_s", true, ratio(2)),
			row("p99, 1 goroutine, µs", "commit_1_p99_us", false, ratio(0.8)),
			row("p99, 16 goroutines, µs", "commit_16_p99_us", false, Target{}),
			row("p99, 64 goroutines, µs", "commit_64_p99_us", false, ratio(0.8)),
			row("bytes written per user byte, 1 goroutine", "commit_1_written_per_user_byte", false, Target{}),
			row("bytes written per user byte, 64 goroutines", "commit_64_written_per_user_byte", false, Target{}),
		},
	}
}

func mixedSection() Section {
	row := func(label, workload, metric string, t Target) Row {
		return Row{Label: label, Workload: workload, Data: "1k", Metric: metric, Target: t}
	}
	rate := func(label, workload string, t Target) Row {
		r := row(label, workload, "mixed_per_s", t)
		r.Factor, r.Higher = 1e-3, true
		return r
	}
	return Section{
		Title: "Mixed gets and puts",
		Note:  "Four goroutines draw 1 M keys of 1 KiB from a Zipf distribution with a skew of 0.99, without syncs.",
		Rows: []Row{
			rate("50/50, k operations/s", "mixed-50", ratio(2)),
			rate("95/5, k operations/s", "mixed-95", ratio(2.5)),
			row("50/50, get p99.9, µs", "mixed-50", "mixed_get_p999_us", ratio(1)),
			row("50/50, put p99.9, µs", "mixed-50", "mixed_put_p999_us", ratio(0.5)),
			row("95/5, get p99.9, µs", "mixed-95", "mixed_get_p999_us", ratio(2)),
			row("95/5, put p99.9, µs", "mixed-95", "mixed_put_p999_us", Target{}),
			row("50/50, get p99.9 of the slowest goroutine, µs", "mixed-50", "mixed_get_p999_slowest_us", Target{}),
			row("50/50, put p99.9 of the slowest goroutine, µs", "mixed-50", "mixed_put_p999_slowest_us", Target{}),
			row("50/50, get p99, µs", "mixed-50", "mixed_get_p99_us", Target{}),
			row("50/50, longest get, ms", "mixed-50", "mixed_get_max_us", absolute(100)).scaled(1e-3),
			row("50/50, longest put, ms", "mixed-50", "mixed_put_max_us", absolute(100)).scaled(1e-3),
		},
	}
}

// contendedSection has the rows in which goroutines meet on the same keys.
func contendedSection() Section {
	row := func(label, workload, data, metric string, higher bool, t Target) Row {
		return Row{Label: label, Workload: workload, Data: data, Metric: metric, Higher: higher, Target: t}
	}
	return Section{
		Title: "Goroutines that meet",
		Note: "Sixteen goroutines increment one counter in durable transactions, which run again after a conflict; bbolt uses Batch. " +
			"One goroutine appends to a queue and one pops its first key, without syncs. " +
			"Each pop seeks from the beginning; a program that remembers the first key avoids the tombstones of RocksDB, Pebble and other trees of levels. " +
			"Seeks that read 20 entries run alone, and beside a writer of 8,000 unsynced puts per second.",
		Rows: []Row{
			row("counter, increments/s", "counter", "128", "counter_per_s", true, ratio(1.5)),
			row("counter, conflicts per increment", "counter", "128", "counter_conflicts", false, absolute(1)),
			row("counter, p99, µs", "counter", "128", "counter_p99_us", false, Target{}),
			row("queue, k pops/s", "queue", "128", "queue_0_per_s", true, Target{}).scaled(1e-3),
			row("queue after 10,000 pops, k pops/s", "queue", "128", "queue_10000_per_s", true, absolute(50)).scaled(1e-3),
			row("queue after 100,000 pops, k pops/s", "queue", "128", "queue_100000_per_s", true, absolute(50)).scaled(1e-3),
			row("queue after 10,000 pops, p99 of a pop, µs", "queue", "128", "queue_10000_p99_us", false, Target{}),
			row("seek + 20 alone, ns", "beside", "1k", "seek20_alone_ns", false, Target{}),
			row("seek + 20 beside the writer, ns", "beside", "1k", "seek20_beside_ns", false, Target{}),
			row("seek + 20 beside the writer, to that alone", "beside", "1k", "seek20_slowdown", false, absolute(1.2)),
			row("longest seek + 20 beside the writer, ms", "beside", "1k", "seek20_beside_max_us", false, absolute(2)).scaled(1e-3),
			row("k puts/s of the writer", "beside", "1k", "beside_puts_per_s", true, Target{}).scaled(1e-3),
		},
	}
}

// coldSection has the rows of data four times as large as memory.
func coldSection() Section {
	row := func(label, workload, metric string, higher bool) Row {
		return Row{Label: label, Workload: workload, Data: "limited", Metric: metric, Higher: higher, ReadAhead: true}
	}
	return Section{
		Title: "1 KiB × 4 M, four times the memory",
		Note:  "A control group limits heap, mappings and cached file pages together to a quarter of the live data. Nothing is cached at the start.",
		Rows: []Row{
			row("scan, whole values, ns per key", "cold-scan", "cold_scan_ns", false),
			row("scan, whole values, MB/s", "cold-scan", "cold_scan_mb_per_s", true),
			row("scan, keys only, ns per key", "cold-keys", "cold_keys_ns", false),
			row("seek + 10/s, 1 goroutine", "cold-seek", "cold_seek_1_per_s", true),
			row("seek + 10/s, 16 goroutines", "cold-seek", "cold_seek_16_per_s", true),
			row("reads/s, 1 goroutine", "cold-get", "cold_1_per_s", true).with(ratio(1.2)),
			row("reads/s, 16 goroutines", "cold-get", "cold_16_per_s", true).with(ratio(1.2)),
			row("read, p99 of 1 goroutine, µs", "cold-get", "cold_1_p99_us", false),
		},
	}
}

func (r Row) with(t Target) Row {
	r.Target = t
	return r
}

func (r Row) onReadAhead() Row {
	r.ReadAhead = true
	return r
}

// label writes the label of the row, with a mark if it depends on the
// read-ahead.
func (r Row) label() string {
	if r.ReadAhead {
		return r.Label + " " + readAheadMark
	}
	return r.Label
}

func (r Row) scaled(factor float64) Row {
	r.Factor = factor
	return r
}

func limitedSection() Section {
	row := func(label, workload, metric string, higher bool, t Target) Row {
		return Row{Label: label, Workload: workload, Data: "limited", Metric: metric, Higher: higher, Target: t}
	}
	// The limit of the device is the better of its buffered and direct reads at
	// that depth.
	share := row("cold reads, 16 goroutines, as a share of the device's", "limited-read", "cold_16_per_s", true, absolute(0.8))
	share.PerLimit = "read_depth_16_per_s"
	return Section{
		Title: "1 KiB × 4 M under 1 GiB of memory",
		Note: "A control group limits heap, mappings and cached file pages together. Reads ask for present keys, with nothing cached at the start. " +
			"The device's figure is its 4 KiB reads at depth 16. The load until settled divides its keys by its time and that of the background work after it.",
		Rows: []Row{
			row("load, k keys/s", "limited-load", "load_keys_per_s", true, ratio(1.5)).scaled(1e-3),
			row("load until settled, k keys/s", "limited-load", "settled_keys_per_s", true, Target{}).scaled(1e-3),
			row("load, seconds of background work after it", "limited-load", "settle_s", false, Target{}),
			row("load, peak anonymous MB", "limited-load", "load_peak_anon_mb", false, absolute(256)),
			row("load, bytes written per user byte, settled", "limited-load", "settled_written_per_user_byte", false, Target{}),
			row("settled size, bytes per live byte", "limited-load", "size_per_live_byte", false, Target{}),
			row("cold reads/s, settled, 1 goroutine", "limited-read", "cold_1_per_s", true, ratio(1.2)).onReadAhead(),
			row("cold reads/s, settled, 16 goroutines", "limited-read", "cold_16_per_s", true, ratio(1.2)).onReadAhead(),
			share.onReadAhead(),
			row("cold read, p99 of 1 goroutine, µs", "limited-read", "cold_1_p99_us", false, Target{}).onReadAhead(),
		},
	}
}

func loadsSection() Section {
	row := func(label, workload, data, metric string, higher bool) Row {
		return Row{Label: label, Workload: workload, Data: data, Metric: metric, Higher: higher}
	}
	newKeys := func(label, metric string, higher bool, target Target) Row {
		return Row{Label: "new keys only, 16 KiB × 100 k: " + label, Workload: "unique", Data: "16k", Metric: metric, Higher: higher, Target: target}
	}
	share := newKeys("as a share of the device's sequential write", "load_mb_per_s", true, absolute(0.5))
	share.PerLimit = "write_direct_mb_per_s"
	return Section{
		Title: "Other loads",
		Note: "The load of new keys writes each key once, otherwise as for the datasets above. The device's figure is a direct write of a new file. " +
			"One goroutine writes the sorted keys in ascending order. The text compresses to about a third.",
		Rows: []Row{
			newKeys("k keys/s", "load_keys_per_s", true, ratio(3)).scaled(1e-3),
			share,
			newKeys("bytes written per user byte, settled", "settled_written_per_user_byte", false, absolute(1.06)),
			newKeys("p99 of a synced batch, ms", "load_batch_p99_ms", false, Target{}),
			newKeys("processor seconds of the load and a check, settled", "settled_cpu_s", false, ratio(1)),
			row("sorted, 128 B × 2 M: k keys/s", "sorted", "128", "load_keys_per_s", true).scaled(1e-3),
			row("sorted: processor seconds of the load and a check, settled", "sorted", "128", "settled_cpu_s", false).with(ratio(1)),
			row("sorted: bytes written per user byte, settled", "sorted", "128", "settled_written_per_user_byte", false),
			row("sorted: settled size, MB", "sorted", "128", "size_mb", false),
			row("text, 1 KiB × 250 k: k keys/s", "json", "json", "load_keys_per_s", true).scaled(1e-3),
			row("text: settled size, bytes per live byte", "json", "json", "size_per_live_byte", false),
			row("text: get, whole value read, 1 goroutine, ns", "json", "json", "whole_1_ns", false),
			row("text: scan with values, ns per key", "json", "json", "scan_ns", false),
		},
	}
}

func deleteSection() Section {
	row := func(label, metric string, higher bool) Row {
		return Row{Label: label, Workload: "delete", Data: "1k-quarter", Metric: metric, Higher: higher}
	}
	return Section{
		Title: "Delete all of 1 KiB × 250 k",
		Rows: []Row{
			row("k deletions/s, no syncs", "delete_keys_per_s", true).scaled(1e-3),
			row("space before, MB", "space_loaded_mb", false),
			row("space after idling, before any call, MB", "space_idle_mb", false),
			row("space after the store's own calls, MB", "space_collected_mb", false),
			row("space after the next close, MB", "allocated_mb", false),
			row("scan of the empty store, ms", "empty_scan_ms", false),
		},
	}
}
