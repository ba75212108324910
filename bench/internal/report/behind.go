package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A behindLine is a line in which a peer does better than we do.
type behindLine struct {
	Line
	Section string
	Ours    Cell
	Reason  string // empty where nobody has said why
}

// slight returns whether the difference may be the noise of the machine.
func (l behindLine) slight() bool { return factor(l.Line) < behindFrom }

// worseText writes how many times better the best peer is.
func (l behindLine) worseText() string {
	switch f := factor(l.Line); {
	case math.IsInf(f, 1), math.IsNaN(l.Ratio):
		return "–"
	default:
		return fmt.Sprintf("%.2f ×", f)
	}
}

// behindFrom is the factor from which a difference is more than the noise of
// a machine.
const behindFrom = 1.1

// behind lists every line in which a peer does better, the largest factor
// first.
func behind(tables []Table) []behindLine {
	var all []behindLine
	for _, t := range tables {
		for _, l := range t.Lines {
			if factor(l) > 1 {
				all = append(all, behindLine{Line: l, Section: t.Title, Ours: oursOf(l), Reason: reasonOf(l.Row)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b behindLine) int { return cmp.Compare(factor(b.Line), factor(a.Line)) })
	return all
}

// byReason puts lines together that have the same reason, those with the worst
// line first, and those that have none at the end.
func byReason(lines []behindLine) [][]behindLine {
	var groups [][]behindLine
	var unexplained []behindLine
	place := map[string]int{}
	for _, l := range lines {
		if l.Reason == "" {
			unexplained = append(unexplained, l)
			continue
		}
		i, known := place[l.Reason]
		if !known {
			i = len(groups)
			place[l.Reason] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], l)
	}
	if unexplained != nil {
		groups = append(groups, unexplained)
	}
	return groups
}

// standing says in how many of the lines that have a peer we are first, and in
// how many of the others by less than noise.
func standing(tables []Table, lines []behindLine) string {
	compared, slight := 0, 0
	for _, t := range tables {
		for _, l := range t.Lines {
			if l.Best >= 0 && (oursOf(l).ok() || l.Lost) {
				compared++
			}
		}
	}
	for _, l := range lines {
		if l.slight() {
			slight++
		}
	}
	return fmt.Sprintf("Of %d rows with a figure of stoat and of a peer, stoat is not first in %d, in %d of these by less than a tenth, "+
		"which may be the noise of the machine. The worst are first, with the reasons that lie in the design and not in a day.", compared, len(lines), slight)
}

// oursOf returns our cell of a line.
func oursOf(l Line) Cell {
	i := slices.IndexFunc(l.Cells, func(c Cell) bool { return c.Store == ours })
	if i < 0 {
		return Cell{Store: ours}
	}
	return l.Cells[i]
}

// factor is how many times better the best peer is: endlessly where we have no
// figure because we failed, and 0 if that is not known.
func factor(l Line) float64 {
	switch {
	case l.Lost:
		return math.Inf(1)
	case l.Best < 0:
		return 0
	case l.Cells[l.Best].Median == 0 && !l.Higher && oursOf(l).ok() && oursOf(l).text() != number(0):
		// Nothing is better than nothing by no factor; it is listed last.
		return behindFrom
	case math.IsNaN(l.Ratio) || l.Ratio == 0:
		return 0
	case l.Higher:
		return 1 / l.Ratio
	}
	return l.Ratio
}
