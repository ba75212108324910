package report

import (
	"fmt"
	"io"
	"math"
)

// missed lists the lines whose figure lies beyond the target, the furthest first.
func missed(tables []Table) []behindLine { return beyond(tables, shortfall) }

// shortfall returns how many times better the figure of a line must be to reach the target.
// It is infinite where stoat failed, and 0 where there is no figure or no target.
func shortfall(l Line) float64 {
	switch {
	case l.Target.Kind == NoTarget:
		return 0
	case oursOf(l).failed():
		return math.Inf(1)
	case math.IsNaN(l.Figure):
		return 0
	case l.Higher:
		return l.Target.Bound / l.Figure
	case l.Target.Bound == 0 && l.Figure > 0:
		return math.Inf(1)
	case l.Target.Bound == 0:
		return 0
	}
	return l.Figure / l.Target.Bound
}

// figureText writes what the target of a line limits.
func (l Line) figureText() string {
	switch {
	case math.IsNaN(l.Figure):
		return oursOf(l).text()
	case l.Target.Kind == Ratio:
		return fmt.Sprintf("%s × %s", number(l.Figure), l.Cells[l.Best].Store)
	case l.Target.Kind == Own:
		return number(l.Figure) + " ×"
	}
	return number(l.Figure)
}

// markdownMissed lists the targets that stoat does not reach, with what limits it.
func markdownMissed(w io.Writer, tables []Table) {
	lines := missed(tables)
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "## Targets that stoat does not reach\n\n"+
		"%d figures lie beyond their targets, also those whose interval leaves the verdict undecided. The furthest is first.\n\n", len(lines))
	markdownReasons(w, lines, func(l behindLine) string {
		return fmt.Sprintf("%s, target %s (%s)", l.figureText(), l.targetText(), l.verdict())
	})
}
