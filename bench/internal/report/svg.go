package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// An svg collects the elements of one picture.
type svg struct {
	text          strings.Builder
	width, height float64
}

func newSVG(width, height float64) *svg { return &svg{width: width, height: height} }

func (s *svg) add(format string, args ...any) { fmt.Fprintf(&s.text, format, args...) }

// label writes text at a position; anchor is start, middle or end.
func (s *svg) label(x, y float64, anchor, class, text string) {
	s.add(`<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`,
		x, y, anchor, class, template.HTMLEscapeString(text))
}

// done returns the picture, with a title for tooltips and screen readers.
func (s *svg) done(title string) template.HTML {
	// Every text passed HTMLEscapeString; the rest is numbers and constants.
	return template.HTML(fmt.Sprintf(
		`<svg viewBox="0 0 %.0f %.0f" width="%.0f" role="img"><title>%s</title>%s</svg>`,
		s.width, s.height, s.width, template.HTMLEscapeString(title), s.text.String()))
}

// An axis maps values to positions.
type axis struct {
	from, to   float64 // values
	start, end float64 // positions
	log        bool
}

func (a axis) at(v float64) float64 {
	from, to := a.from, a.to
	if a.log {
		from, to, v = math.Log10(from), math.Log10(to), math.Log10(max(v, a.from))
	}
	if to == from {
		return a.start
	}
	return a.start + (v-from)/(to-from)*(a.end-a.start)
}

// ticks returns round values on the axis: powers of ten, or multiples of 1, 2 or
// 5 times a power of ten.
func (a axis) ticks() []float64 {
	if a.log {
		return a.logTicks()
	}
	const about = 4
	step := math.Pow(10, math.Floor(math.Log10((a.to-a.from)/about)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (a.to-a.from)/(step*m) <= about+1 {
			step *= m
			break
		}
	}
	if step <= 0 || math.IsNaN(step) || math.IsInf(step, 0) {
		return nil
	}
	var t []float64
	for v := math.Ceil(a.from/step) * step; v <= a.to*1.0001; v += step {
		t = append(t, v)
	}
	return t
}

// logTicks returns powers of ten. A short axis also has their multiples by 2
// and 5.
func (a axis) logTicks() []float64 {
	steps := []float64{1}
	if a.to < a.from*200 {
		steps = []float64{1, 2, 5}
	}
	var t []float64
	for power := math.Pow(10, math.Floor(math.Log10(a.from))); power <= a.to; power *= 10 {
		for _, step := range steps {
			if v := power * step; v >= a.from*0.9999 && v <= a.to*1.0001 {
				t = append(t, v)
			}
		}
	}
	return t
}

// short writes a tick's value with a unit of M or k.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return trim(v/1e6) + " M"
	case a >= 1e3:
		return trim(v/1e3) + " k"
	}
	return trim(v)
}

func trim(v float64) string { return fmt.Sprintf("%.4g", v) }
