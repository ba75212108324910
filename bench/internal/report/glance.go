package report

import (
	"fmt"
	"html/template"
	"math"
)

const (
	glanceHeight = 17
	glanceName   = 300 // width for the labels
	glanceValue  = 58  // width for the figures at both ends
	glanceWidth  = 640
	glanceTop    = 16
)

// glances returns a chart for each table: stoat's figures against those of the
// best peers.
func glances(tables []Table) []picture {
	var all []picture
	for _, t := range tables {
		if chart := glanceChart(t); chart != "" {
			all = append(all, picture{Title: t.Title, Chart: chart})
		}
	}
	return all
}

// glanceChart draws a bar for each line with a target. A bar to the right shows
// how many times better stoat is than the best peer, a bar to the left how many
// times worse. The chart is empty if no line can be drawn.
func glanceChart(t Table) template.HTML {
	var lines []Line
	most := 4.0
	for _, l := range t.Lines {
		if l.Target.Kind == NoTarget || !l.Lost && (math.IsNaN(l.Ratio) || l.Ratio == 0) {
			continue
		}
		lines = append(lines, l)
		if !l.Lost {
			most = max(most, factor(l), 1/factor(l))
		}
	}
	if lines == nil {
		return ""
	}
	s := newSVG(glanceWidth, float64(len(lines)*glanceHeight)+glanceTop+4)
	x := axis{from: 1 / most, to: most, start: glanceName + glanceValue, end: glanceWidth - glanceValue, log: true}
	middle := x.at(1)
	s.label(middle-6, 10, "end", "unit", "worse than the best peer")
	s.label(middle+6, 10, "start", "unit", "better")
	for i, l := range lines {
		s.glance(l, x, glanceTop+float64(i*glanceHeight))
	}
	s.add(`<path d="M%.1f %dV%.1f" class="axis"/>`, middle, glanceTop, s.height)
	return s.done(t.Title + ": stoat to the best peer")
}

// glance draws one line at a height.
func (s *svg) glance(l Line, x axis, y float64) {
	s.label(glanceName-6, y+12, "end", "name", l.Label)
	middle, baseline := x.at(1), y+12
	if l.Lost {
		s.label(middle-5, baseline, "end", "bad", oursOf(l).text())
		return
	}
	worse := factor(l)
	class, text, anchor, from, to, at := "good", fmt.Sprintf("%s ×", number(1/worse)), "start", middle, x.at(1/worse), 0.0
	at = to + 4
	if worse > 1 {
		class, text, anchor, from, to = "bad", fmt.Sprintf("%s ×", number(worse)), "end", x.at(1/worse), middle
		at = from - 4
	}
	s.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%d" class="%s"/>`, from, y+3, max(to-from, 1), glanceHeight-6, class)
	s.label(at, baseline, anchor, "value", text)
}
