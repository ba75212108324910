package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/growth"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// growthFigures are the figures that are measured and projected as data grows.
var growthFigures = []struct {
	metric, label string
	factor        float64

	// inMemory: the law holds only while the data fits into memory. depth is the
	// number of concurrent reads, 0 if they are not random.
	inMemory bool
	depth    int
}{
	{"load_keys_per_s", "load, k keys/s", 1e-3, false, 0},
	{"settled_written_per_user_byte", "bytes written per user byte, settled", 1, false, 0},
	{"load_peak_anon_mb", "load, peak anonymous MB", 1, false, 0},
	{"size_per_live_byte", "size per live byte", 1, false, 0},
	{"open_ms", "open, ms", 1, false, 0},
	{"get_1_ns", "get, 1 goroutine, ns", 1, true, 1},
	{"get_16_ns", "get, 16 goroutines, ns", 1, true, 16},
	{"scan_whole_ns", "first scan, whole values, ns per key", 1, true, 0},
}

// projected are the numbers of keys that the models project, by series: those of
// a comparison of 2017, and two billion keys.
var projected = map[string][]float64{"128": {250e6, 2e9}, "1k": {75e6}, "16k": {5e6}}

// growthSeries are the series in the order of the report.
var growthSeries = []string{"128", "1k", "16k"}

// growthSection returns the targets of growing data.
func growthSection() Section {
	s := Section{
		Title: "128 B, each key once",
		Note:  "The targets of growing data. Only stoat, Pebble and RocksDB load these sizes. Growing data has the points between, and what they project.",
	}
	for _, data := range []struct{ name, keys string }{{"128-2m", "2 M"}, {"128-20m", "20 M"}, {"128-50m", "50 M"}} {
		row := func(label, metric string, t Target) Row {
			return Row{Label: data.keys + ": " + label, Workload: "scale", Data: data.name, Metric: metric, Target: t}
		}
		rate := row("load, k keys/s", "load_keys_per_s", ratio(2)).scaled(1e-3)
		rate.Higher = true
		s.Rows = append(s.Rows, rate,
			row("bytes written per user byte, settled", "settled_written_per_user_byte", ratio(1)),
			row("load, peak anonymous MB", "load_peak_anon_mb", absolute(268.4)))
	}
	// A key costs at most half more than in a small database.
	small := func(metric string) baseline {
		return baseline{name: "figure at 2 M", Workload: "scale", Metric: metric, Data: "128-2m"}
	}
	grown := func(label, metric string) Row {
		return Row{Label: "50 M, to 2 M: " + label, Workload: "scale", Data: "128-50m", Metric: metric, Target: own(1.5, small(metric))}
	}
	rate := grown("load, k keys/s", "load_keys_per_s").with(own(0.67, small("load_keys_per_s"))).scaled(1e-3)
	rate.Higher = true
	s.Rows = append(s.Rows, rate, grown("get, 1 goroutine, ns", "get_1_ns"), grown("get, 16 goroutines, ns", "get_16_ns"),
		grown("first scan, whole values, ns per key", "scan_whole_ns"))
	return s
}

// growthRow is one figure of one store in one series.
type growthRow struct {
	label, store string
	inMemory     bool
	factor       float64
	deviceNanos  float64 // of a random read at the depth of this figure; 0 if not known
	points       []growth.Point
}

// growthRows returns the rows of a series that have points. The scale is that of the run.
func (c results) growthRows(series string, scale float64) []growthRow {
	var rows []growthRow
	for _, f := range growthFigures {
		for _, store := range c.stores {
			row := growthRow{label: f.label, store: store, inMemory: f.inMemory, factor: f.factor}
			for _, d := range workload.Datasets {
				if !d.Growth || d.Series() != series {
					continue
				}
				cell := c.cell(Row{Workload: "scale", Data: d.Name, Metric: f.metric}, store)
				if cell.ok() && cell.Median > 0 {
					row.points = append(row.points, growth.Point{Keys: float64(d.Scaled(scale)), Value: cell.Median})
					row.deviceNanos = c.deviceNanos(cell.lastMachine(), f.depth)
				}
			}
			if row.points != nil {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// lastMachine returns the machine of the last repeat of a cell that has a figure.
func (c Cell) lastMachine() comparison.Machine {
	return c.Samples[slices.Max(slices.Collect(maps.Keys(c.Samples)))].machine
}

// deviceNanos returns the time per random read of a machine's device at a depth, 0 if it was
// not measured.
func (c results) deviceNanos(m comparison.Machine, depth int) float64 {
	limits := c.limits[m.WithoutRevision()]
	perSecond := max(limits[fmt.Sprintf("read_buffered_depth_%d_per_s", depth)], limits[fmt.Sprintf("read_direct_depth_%d_per_s", depth)])
	if perSecond == 0 {
		return 0
	}
	return 1e9 / perSecond
}

const growthNote = "Each key is written once, in a scattered order. For each row, the law that predicts each of the smaller points best from the others is " +
	"fitted to the smaller points and checked on the largest two, or on the largest one of a short series; \"off by\" is the largest error of these checks. " +
	"The projections come from the law fitted to all points. Their range takes the error once for each distance beyond the largest point that is as long as the checked one. " +
	"Where the data exceeds memory, a get costs at least one read of the device for the share that is not in memory."

// markdownGrowth writes the points and the projections of every series.
func markdownGrowth(w io.Writer, rec *comparison.Record) {
	c := collect(rec, storeNames(rec))
	begun := false
	for _, series := range growthSeries {
		rows := c.growthRows(series, rec.Settings.Scale)
		if rows == nil {
			continue
		}
		if !begun {
			fmt.Fprintf(w, "## Growing data\n\n%s\n\n", growthNote)
			begun = true
		}
		growthTable(w, rec, series, rows)
	}
}

func growthTable(w io.Writer, rec *comparison.Record, series string, rows []growthRow) {
	sizes, value := sizesOf(rows), 0
	title := series
	for _, d := range workload.Datasets {
		if d.Growth && d.Series() == series {
			value = d.Values.Size
			title, _, _ = strings.Cut(d.Title, " ×")
		}
	}
	head := []string{title, ""}
	for _, keys := range sizes {
		head = append(head, keysText(keys))
	}
	head = append(head, "law", "off by")
	for _, keys := range projected[series] {
		head = append(head, "at "+keysText(keys))
	}
	markdownRow(w, head)
	markdownRow(w, slices.Repeat([]string{"---"}, len(head)))
	memory := memoryBytes(rec.Settings.Machine.Memory)
	for _, row := range rows {
		cells := []string{row.label, row.store}
		for _, keys := range sizes {
			cells = append(cells, pointText(row, keys))
		}
		markdownRow(w, append(cells, modelTexts(row, projected[series], memory, value)...))
	}
	fmt.Fprintln(w)
}

// sizesOf returns the numbers of keys of all points, ascending.
func sizesOf(rows []growthRow) []float64 {
	var sizes []float64
	for _, row := range rows {
		for _, p := range row.points {
			sizes = append(sizes, p.Keys)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

func pointText(row growthRow, keys float64) string {
	for _, p := range row.points {
		if p.Keys == keys {
			return number(p.Value * row.factor)
		}
	}
	return "–"
}

// modelTexts writes the law, its error and the projections. Reads of data that
// exceeds memory also cost reads of the device, which the law knows nothing of.
func modelTexts(row growthRow, at []float64, memory float64, valueBytes int) []string {
	m, err := growth.Fit(row.points)
	if err != nil {
		return slices.Repeat([]string{"–"}, len(at)+2)
	}
	texts := []string{string(m.Law), fmt.Sprintf("%.2f ×", m.Error)}
	for _, keys := range at {
		low, high := m.Range(keys)
		switch live := keys * float64(workload.KeySize+valueBytes); {
		case m.At(keys) <= 0:
			texts = append(texts, "beyond the law")
		case row.inMemory && live > memory:
			texts = append(texts, beyondMemory(row, m.At(keys), 1-memory/live))
		default:
			texts = append(texts, fmt.Sprintf("%s (%s to %s)", number(m.At(keys)*row.factor), number(low*row.factor), number(high*row.factor)))
		}
	}
	return texts
}

// beyondMemory writes the least time of a random read when only a share of the data is in
// memory. It is the time of the law, and one read of the device for the missing share. A
// store may need more than one.
func beyondMemory(row growthRow, nanos, missing float64) string {
	if row.deviceNanos == 0 || missing >= 1 {
		return "exceeds memory"
	}
	return "at least " + number((nanos+missing*row.deviceNanos)*row.factor)
}

// memoryBytes returns the memory of a machine in bytes, 0 if it is not known.
func memoryBytes(memory string) float64 {
	var kib float64
	if _, err := fmt.Sscanf(memory, "%f kB", &kib); err != nil {
		return 0
	}
	return kib * 1024
}

// keysText writes a number of keys.
func keysText(keys float64) string {
	switch {
	case keys >= 1e9:
		return fmt.Sprintf("%g G", keys/1e9)
	case keys >= 1e6:
		return fmt.Sprintf("%g M", keys/1e6)
	}
	return fmt.Sprintf("%g k", keys/1e3)
}
