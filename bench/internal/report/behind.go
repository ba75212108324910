package report

import (
	"cmp"
	"math"
	"slices"
)

// A behindLine is a line in which a peer does better than we do.
type behindLine struct {
	Line
	Section string
	Ours    Cell
}

// behindFrom is the factor from which a difference is more than the noise of
// a machine.
const behindFrom = 1.1

// behind lists where a peer does better, the largest factor first.
func behind(tables []Table) []behindLine {
	var all []behindLine
	for _, t := range tables {
		for _, l := range t.Lines {
			if factor(l) >= behindFrom {
				i := slices.IndexFunc(l.Cells, func(c Cell) bool { return c.Store == ours })
				all = append(all, behindLine{Line: l, Section: t.Title, Ours: l.Cells[i]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b behindLine) int { return cmp.Compare(factor(b.Line), factor(a.Line)) })
	return all
}

// factor is how many times better the best peer is; 0 if that is not known.
func factor(l Line) float64 {
	switch {
	case math.IsNaN(l.Ratio) || l.Ratio == 0:
		return 0
	case l.Higher:
		return 1 / l.Ratio
	}
	return l.Ratio
}
