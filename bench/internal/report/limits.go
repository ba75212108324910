package report

import (
	"fmt"
	"io"

	"github.com/stoatdb/stoat/bench/internal/comparison"
)

// readAheadMark marks the figures that depend on the read-ahead.
const readAheadMark = "†"

// readAheadNote explains readAheadMark.
func readAheadNote(m comparison.Machine) string {
	size := "of a size that the record does not name"
	if m.ReadAhead != "" {
		size = "of " + m.ReadAhead + " KiB"
	}
	return readAheadMark + " depends on the read-ahead of this machine's device, " + size + ". Many machines have 128 KiB: " +
		"scans are then slower, and page faults of mappings cheaper."
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

// allows returns the ceiling's rate on a machine, and false if the machine was
// not measured.
func (c ceiling) allows(limits map[string]float64) (float64, bool) {
	most := 0.0
	for _, name := range c.limits {
		v := limits[name]
		if c.invert > 0 && v > 0 {
			v = c.invert / v
		}
		most = max(most, v)
	}
	return most, most > 0
}

// aboveLimits explains each figure above what the device allows, one sentence a
// row.
func aboveLimits(rec *comparison.Record, tables []Table) []string {
	limits := medianLimits(rec.Limits)
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
