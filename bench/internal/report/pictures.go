package report

import (
	"html/template"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// A picture is a chart over all stores, with its heading.
type picture struct {
	Title string
	Hint  string // how to read the chart; may be empty
	Chart template.HTML
}

// costMetrics are the metrics whose bars the page always shows: size, memory and
// bytes written.
var costMetrics = []string{
	"size_mb", "size_per_live_byte", "space_peak_per_live_byte",
	"load_peak_anon_mb", "peak_anon_mb",
	"settled_written_per_user_byte", "written_per_user_byte",
}

// costs returns the bar charts of space, memory and bytes written. The charts of
// one metric are side by side.
func costs(tables []Table) []picture {
	var all []picture
	for _, metric := range costMetrics {
		for _, t := range tables {
			for _, l := range t.Lines {
				if l.Metric == metric {
					chart, hint := barChart(l)
					all = append(all, picture{Title: t.Title + ": " + l.Label, Hint: hint, Chart: chart})
				}
			}
		}
	}
	return all
}

// pictures returns the charts that span several rows: loads over time, and
// latencies by percentile.
func pictures(rec *comparison.Record, stores []string) []picture {
	c := collect(rec, stores)
	var all []picture
	for _, p := range []struct{ title, workload, data string }{
		{"Load over time, 128 B × 2 M", "populate", "128"},
		{"Load over time, 1 KiB × 1 M", "populate", "1k"},
		{"Load over time, 16 KiB × 100 k", "populate", "16k"},
		{"Load under 1 GiB over time, 1 KiB × 4 M", "limited-load", "limited"},
	} {
		all = c.appendCurve(all, p.title, p.workload, p.data, "load_keys")
	}
	all = c.appendCurve(all, "Overwrites over time, 1 KiB", "churn", "1k", "overwrite_keys")
	for _, p := range []struct{ title, workload, data, metric, unit string }{
		{"Synced batch of 1,000, 128 B", "populate", "128", "load_batch", "ms"},
		{"Synced batch of 1,000, 1 KiB", "populate", "1k", "load_batch", "ms"},
		{"Synced batch of 1,000, 16 KiB", "populate", "16k", "load_batch", "ms"},
		{"Overwriting batch of 1,000, 1 KiB, no syncs", "churn", "1k", "overwrite_batch", "ms"},
		{"Durable commit, 1 goroutine", "commit", "128", "commit_1", "us"},
		{"Durable commit, 64 goroutines", "commit", "128", "commit_64", "us"},
		{"Get, 1 goroutine, 1 KiB", "get", "1k", "get_1", "us"},
		{"Get in a 50/50 mixture", "mixed-50", "1k", "mixed_get", "us"},
		{"Put in a 50/50 mixture", "mixed-50", "1k", "mixed_put", "us"},
		{"Get in a 95/5 mixture", "mixed-95", "1k", "mixed_get", "us"},
		{"Cold get, 1 goroutine, under 1 GiB", "limited-read", "limited", "cold_1", "us"},
	} {
		all = c.appendQuantiles(all, p.title, p.workload, p.data, p.metric, p.unit)
	}
	return all
}

// appendCurve adds a line chart with the curve of each store's first successful
// run.
func (c results) appendCurve(all []picture, title, work, data, name string) []picture {
	var lines []series
	for _, store := range c.stores {
		for _, r := range c.byJob[jobName{store, work, data}] {
			if points := r.Curves[name]; r.Status == workload.OK && len(points) > 1 {
				lines = append(lines, series{store, points})
				break
			}
		}
	}
	if lines == nil {
		return all
	}
	return append(all, picture{Title: title, Chart: lineChart(title, "seconds", "keys written", lines)})
}

func (c results) appendQuantiles(all []picture, title, work, data, metric, unit string) []picture {
	var lines []series
	for _, store := range c.stores {
		var points []measure.Point
		for i, q := range quantileLabels {
			cell := c.cell(Row{Workload: work, Data: data, Metric: metric + "_" + q + "_" + unit}, store)
			if cell.ok() && cell.Median > 0 {
				points = append(points, measure.Point{Seconds: float64(i), Value: cell.Median})
			}
		}
		if points != nil {
			lines = append(lines, series{store, points})
		}
	}
	if lines == nil {
		return all
	}
	if unit == "us" {
		unit = "µs"
	}
	return append(all, picture{Title: title, Chart: quantileChart(title, unit, lines)})
}
