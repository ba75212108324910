package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/comparison"
)

// readAheadMark marks the figures that depend on the read-ahead.
const readAheadMark = "†"

// readAheadNote explains readAheadMark.
func readAheadNote(rec *comparison.Record) string {
	var sizes []string
	for _, m := range machines(rec) {
		if m.ReadAhead != "" && !slices.Contains(sizes, m.ReadAhead) {
			sizes = append(sizes, m.ReadAhead)
		}
	}
	size := "of a size that the record does not name"
	if sizes != nil {
		size = "of " + strings.Join(sizes, " and ") + " KiB"
	}
	return readAheadMark + " depends on the read-ahead of this machine's device, " + size + ". Many machines have 128 KiB: " +
		"scans are then slower, and page faults of mappings cheaper."
}

// A limitLabel names a limit of the machine for readers.
type limitLabel struct{ name, label string }

var limitLabels = []limitLabel{
	{"write_buffered_mb_per_s", "sequential write of a new file and one sync, buffered, MB/s"},
	{"rewrite_buffered_mb_per_s", "sequential overwrite in place and one sync, buffered, MB/s"},
	{"write_direct_mb_per_s", "sequential write of a new file and one sync, direct, MB/s"},
	{"rewrite_direct_mb_per_s", "sequential overwrite in place and one sync, direct, MB/s"},
	{"read_buffered_depth_1_per_s", "4 KiB random reads/s, buffered, depth 1"},
	{"read_buffered_depth_16_per_s", "4 KiB random reads/s, buffered, depth 16"},
	{"read_buffered_depth_32_per_s", "4 KiB random reads/s, buffered, depth 32"},
	{"read_direct_depth_1_per_s", "4 KiB random reads/s, direct, depth 1"},
	{"read_direct_depth_16_per_s", "4 KiB random reads/s, direct, depth 16"},
	{"read_direct_depth_32_per_s", "4 KiB random reads/s, direct, depth 32"},
	{"sync_append_p50_us", "fdatasync of a 4 KiB append, p50, µs"},
	{"sync_append_p99_us", "fdatasync of a 4 KiB append, p99, µs"},
	{"sync_overwrite_p50_us", "fdatasync of a 4 KiB overwrite, p50, µs"},
	{"sync_overwrite_p99_us", "fdatasync of a 4 KiB overwrite, p99, µs"},
	{"memory_copy_gb_per_s", "memory copy, GB/s"},
	{"memory_touch_gb_per_s", "first touch of new memory, GB/s"},
	{"memory_access_ns", "dependent memory access, ns"},
	{"harness_read_ns", "the harness's share of a get, ns"},
	{"harness_scan_ns", "the harness's share of a scan with values, ns per key"},
	{"harness_keys_ns", "the harness's share of a scan of keys, ns per key"},
	{"harness_whole_128_ns", "the harness's share of a scan with whole values, 128 B, ns per key"},
	{"harness_whole_1024_ns", "the harness's share of a scan with whole values, 1 KiB, ns per key"},
	{"harness_whole_16384_ns", "the harness's share of a scan with whole values, 16 KiB, ns per key"},
}

// A limitsTable has the medians of the limits on each machine.
type limitsTable struct {
	Machines []string // none if there is one machine
	Lines    []limitsLine
}

type limitsLine struct {
	Label  string
	Values []string
}

// limitsOf returns the limits of the machines of a record.
func limitsOf(rec *comparison.Record) (t limitsTable) {
	medians, all := medianLimits(rec), machines(rec)
	if len(all) > 1 {
		for i := range all {
			t.Machines = append(t.Machines, machineName(i))
		}
	}
	for _, l := range limitLabels {
		line, measured := limitsLine{Label: l.label}, false
		for _, m := range all {
			text := "–"
			if v, ok := medians[m][l.name]; ok {
				text, measured = number(v), true
			}
			line.Values = append(line.Values, text)
		}
		if measured {
			t.Lines = append(t.Lines, line)
		}
	}
	return t
}

// A ceiling is what the device allows in a row in which higher is better, if
// every operation goes to the device.
type ceiling struct {
	limits []string // the largest of these limits of the machine
	name   string
	invert float64 // the limit is a time in units of 1/invert seconds; 0 if it is a rate
	why    string  // how a figure can exceed it
}

const (
	cachedWhy = "the pages that memory holds are read from there, and one read fetches neighbours that later reads use"
	groupWhy  = "one sync covers the commits of many goroutines"
)

// ceilings maps rows, without their dataset, to what the device allows.
var ceilings = map[metricKey]ceiling{
	{"limited-read", "cold_1_per_s"}:  {[]string{"read_buffered_depth_1_per_s", "read_direct_depth_1_per_s"}, "random 4 KiB reads at depth 1", 0, cachedWhy},
	{"limited-read", "cold_16_per_s"}: {[]string{"read_buffered_depth_16_per_s", "read_direct_depth_16_per_s"}, "random 4 KiB reads at depth 16", 0, cachedWhy},
	{"cold-get", "cold_1_per_s"}:      {[]string{"read_buffered_depth_1_per_s", "read_direct_depth_1_per_s"}, "random 4 KiB reads at depth 1", 0, cachedWhy},
	{"cold-get", "cold_16_per_s"}:     {[]string{"read_buffered_depth_16_per_s", "read_direct_depth_16_per_s"}, "random 4 KiB reads at depth 16", 0, cachedWhy},
	{"commit", "commit_1_per_s"}: {[]string{"sync_overwrite_p50_us"}, "syncs of an overwrite, one after the other", 1e6,
		"the two were measured minutes apart, and the speed of the device varies by more than this"},
	{"commit", "commit_16_per_s"}: {[]string{"sync_overwrite_p50_us"}, "syncs of an overwrite, one after the other", 1e6, groupWhy},
	{"commit", "commit_64_per_s"}: {[]string{"sync_overwrite_p50_us"}, "syncs of an overwrite, one after the other", 1e6, groupWhy},
	{"counter", "counter_per_s"}:  {[]string{"sync_overwrite_p50_us"}, "syncs of an overwrite, one after the other", 1e6, groupWhy},
}

// allows returns the ceiling's rate on the fastest machine, and false if none was measured.
func (c ceiling) allows(limits map[comparison.Machine]map[string]float64) (float64, bool) {
	most := 0.0
	for _, onOne := range limits {
		for _, name := range c.limits {
			v := onOne[name]
			if c.invert > 0 && v > 0 {
				v = c.invert / v
			}
			most = max(most, v)
		}
	}
	return most, most > 0
}

// aboveLimits explains each figure above what the device allows, one sentence a
// row.
func aboveLimits(rec *comparison.Record, tables []Table) []string {
	limits := medianLimits(rec)
	var all []string
	for _, t := range tables {
		for _, l := range t.Lines {
			c, known := ceilings[metricKey{l.Workload, l.Metric}]
			most, measured := c.allows(limits)
			if !known || !measured || l.PerLimit != "" {
				continue
			}
			names := ""
			for _, cell := range l.Cells {
				if cell.ok() && cell.Median > most {
					names += fmt.Sprintf(", %s %s", cell.Store, cell.text())
				}
			}
			if names != "" {
				all = append(all, fmt.Sprintf("%s: %s. Above the device's %s (%s)%s: %s.", t.Title, l.Label, number(most), c.name, names, c.why))
			}
		}
	}
	return all
}

func markdownAbove(w io.Writer, rec *comparison.Record, tables []Table) {
	lines := aboveLimits(rec, tables)
	if len(lines) == 0 {
		return
	}
	fmt.Fprint(w, "## Figures above a limit of the device\n\n")
	for _, text := range lines {
		fmt.Fprintf(w, "- %s\n", text)
	}
	fmt.Fprintln(w)
}
