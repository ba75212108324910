package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/measure"
)

// A bar is one store's figure in a bar chart, or why there is none.
type bar struct {
	store string
	value float64
	low   float64 // the lowest of the repeats
	high  float64 // the highest of the repeats
	note  string  // in place of a value
}

const (
	barHeight = 17
	barName   = 108 // width for the names
	barValue  = 62  // width for the figures
	barWidth  = 388
)

// barChart draws a line: a bar for each store, with the range of its repeats.
// The best peer's name is bold. The axis is logarithmic where the figures are
// far apart. The hint, to be shown with the chart, says so.
func barChart(l Line) (chart template.HTML, hint string) {
	bars := barsOf(l)
	s := newSVG(barWidth, float64(len(bars)*barHeight)+4)
	x := barAxis(bars)
	for i, b := range bars {
		y := float64(i*barHeight) + 2
		class := "name"
		if i == l.Best {
			class = "name best"
		}
		s.label(barName-6, y+12, "end", class, b.store)
		if b.note != "" {
			s.label(barName, y+12, "start", "none", b.note)
			continue
		}
		end := x.at(b.value)
		s.add(`<rect x="%d" y="%.1f" width="%.1f" height="%d" rx="2" fill="%s"/>`,
			barName, y+2, max(end-barName, 1), barHeight-5, colorOf(b.store))
		if b.high > b.low {
			s.add(`<path d="M%.1f %.1fH%.1f" class="range"/>`, x.at(b.low), y+barHeight/2, x.at(b.high))
		}
		s.label(max(end, x.at(b.high))+4, y+12, "start", "value", number(b.value))
	}
	hint = "less is better"
	if l.Higher {
		hint = "more is better"
	}
	if x.log {
		hint += ", logarithmic"
	}
	return s.done(l.Label + ": " + hint), hint
}

func barsOf(l Line) []bar {
	var bars []bar
	for _, c := range l.Cells {
		b := bar{store: c.Store}
		if c.ok() {
			b.value, b.low, b.high = c.Median, c.Min, c.Max
		} else {
			b.note = c.text()
		}
		bars = append(bars, b)
	}
	return bars
}

// farApart is the ratio of the largest to the smallest figure from which the
// axis is logarithmic.
const farApart = 60

func barAxis(bars []bar) axis {
	smallest, largest := math.Inf(1), 0.0
	for _, b := range bars {
		if b.note == "" && b.value > 0 {
			smallest, largest = min(smallest, b.value), max(largest, b.high)
		}
	}
	a := axis{from: 0, to: max(largest, 1e-9), start: barName, end: barWidth - barValue}
	if largest > smallest*farApart {
		a.from, a.log = smallest/2, true
	}
	return a
}

// A series is a store's line in a chart.
type series struct {
	store  string
	points []measure.Point
}

const (
	plotWidth  = 560
	plotHeight = 240
	plotLeft   = 52
	plotBottom = 28
	plotRight  = 12
	plotTop    = 20
)

// frame draws the axes with their ticks.
func (s *svg) frame(x, y axis, xUnit, yUnit string) {
	for _, v := range y.ticks() {
		s.add(`<path d="M%.1f %.1fH%.1f" class="grid"/>`, x.start, y.at(v), x.end)
		s.label(x.start-5, y.at(v)+4, "end", "tick", short(v))
	}
	for _, v := range x.ticks() {
		s.label(x.at(v), y.start+15, "middle", "tick", short(v))
	}
	s.add(`<path d="M%.1f %.1fV%.1fH%.1f" class="axis"/>`, x.start, y.end, y.start, x.end)
	s.label(x.end, y.start+26, "end", "unit", xUnit)
	s.label(2, plotTop-9, "start", "unit", yUnit)
}

// lineChart draws lines over time.
func lineChart(title, xUnit, yUnit string, all []series) template.HTML {
	var right, top float64
	for _, one := range all {
		for _, p := range one.points {
			right, top = max(right, p.Seconds), max(top, p.Value)
		}
	}
	s := newSVG(plotWidth, plotHeight)
	x := axis{from: 0, to: max(right, 1e-3), start: plotLeft, end: plotWidth - plotRight}
	y := axis{from: 0, to: max(top, 1e-9) * 1.05, start: plotHeight - plotBottom, end: plotTop}
	s.frame(x, y, xUnit, yUnit)
	for _, one := range oursLast(all) {
		s.line(one, x, y)
	}
	return s.done(title)
}

// line draws a store's line. stoat's line is thicker; variants are dashed.
func (s *svg) line(one series, x, y axis) {
	class := "line"
	switch {
	case one.store == ours:
		class += " own"
	case isVariant(one.store):
		class += " variant"
	}
	s.add(`<path class="%s" stroke="%s" d="`, class, colorOf(one.store))
	for i, p := range one.points {
		s.add("%s%.1f %.1f", pathVerb(i), x.at(p.Seconds), y.at(p.Value))
	}
	s.add(`"><title>%s</title></path>`, template.HTMLEscapeString(one.store))
}

// oursLast moves stoat to the end, so that its line is drawn above the others.
func oursLast(all []series) []series {
	isOurs := func(one series) bool { return one.store == ours }
	i := slices.IndexFunc(all, isOurs)
	if i < 0 {
		return all
	}
	return append(slices.DeleteFunc(slices.Clone(all), isOurs), all[i])
}

func pathVerb(i int) string {
	if i == 0 {
		return "M"
	}
	return "L"
}

// quantileLabels are the evenly spaced positions of a percentile chart. Each is
// about ten times rarer than the one before.
var quantileLabels = []string{"p50", "p90", "p99", "p999", "max"}

// quantileChart draws latencies by percentile, logarithmic.
func quantileChart(title, unit string, all []series) template.HTML {
	low, high := math.Inf(1), 0.0
	for _, one := range all {
		for _, p := range one.points {
			low, high = min(low, p.Value), max(high, p.Value)
		}
	}
	low = max(low, 1e-3)
	s := newSVG(plotWidth, plotHeight)
	x := axis{from: 0, to: float64(len(quantileLabels) - 1), start: plotLeft, end: plotWidth - plotRight - 20}
	y := axis{from: low * 0.8, to: max(high, low) * 1.3, start: plotHeight - plotBottom, end: plotTop, log: true}
	s.frame(axis{from: 1, to: 0, start: plotLeft, end: plotWidth - plotRight}, y, "", unit)
	for i, name := range quantileLabels {
		s.label(x.at(float64(i)), plotHeight-plotBottom+15, "middle", "tick", strings.Replace(name, "999", "99.9", 1))
	}
	for _, one := range oursLast(all) {
		s.line(one, x, y)
		for _, p := range one.points {
			s.add(`<circle cx="%.1f" cy="%.1f" r="2.6" fill="%s"><title>%s</title></circle>`,
				x.at(p.Seconds), y.at(p.Value), colorOf(one.store),
				template.HTMLEscapeString(fmt.Sprintf("%s: %s %s", one.store, number(p.Value), unit)))
		}
	}
	return s.done(title)
}
