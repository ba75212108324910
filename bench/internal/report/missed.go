package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
)

// missed lists the lines whose figure lies beyond the target, the furthest first.
func missed(tables []Table) []behindLine {
	var all []behindLine
	for _, t := range tables {
		for _, l := range t.Lines {
			if shortfall(l) > 1 {
				all = append(all, behindLine{Line: l, Section: t.Title, Ours: oursOf(l), Reason: reasonOf(l.Row)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b behindLine) int { return cmp.Compare(shortfall(b.Line), shortfall(a.Line)) })
	return all
}

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
	for _, group := range byReason(lines) {
		reason := group[0].Reason
		if reason == "" {
			reason = "No reason is recorded for these rows."
		}
		fmt.Fprintf(w, "%s\n\n", reason)
		for _, l := range group {
			fmt.Fprintf(w, "- %s: %s. %s, target %s (%s).\n", l.Section, l.label(), l.figureText(), l.targetText(), l.verdict())
		}
		fmt.Fprintln(w)
	}
}
