package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
)

// A behindLine is a line in which a peer does better than stoat.
type behindLine struct {
	Line
	Section string
	Reason  string // empty where no reason is recorded
}

// slight returns whether the difference may be noise. Then the interval of the ratio
// includes equality, or there is none and the difference is less than a tenth.
func (l Line) slight() bool {
	if l.Ratios.Known() {
		return l.Ratios.Low <= 1 && l.Ratios.High >= 1
	}
	f := factor(l)
	return f < behindFrom && f > 1/behindFrom
}

// sure returns whether the interval of the ratio says which store is better.
func (l Line) sure() bool { return l.Ratios.Known() && !l.slight() }

// worseText writes how many times better the best peer is.
func (l behindLine) worseText() string {
	switch f := factor(l.Line); {
	case math.IsInf(f, 1), math.IsNaN(l.Ratio):
		return "–"
	default:
		return fmt.Sprintf("%.2f ×", f)
	}
}

// behindFrom is the factor from which a difference without an interval is more
// than noise.
const behindFrom = 1.1

// behind lists every line in which a peer does better, the largest factor
// first.
func behind(tables []Table) []behindLine { return beyond(tables, factor) }

// beyond lists the lines of which a measure is more than one, the greatest first.
func beyond(tables []Table, measure func(Line) float64) []behindLine {
	var all []behindLine
	for _, t := range tables {
		for _, l := range t.Lines {
			if measure(l) > 1 {
				all = append(all, behindLine{Line: l, Section: t.Title, Reason: reasonOf(l.Row)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b behindLine) int { return cmp.Compare(measure(b.Line), measure(a.Line)) })
	return all
}

// markdownReasons writes lines below their reasons. text writes a line.
func markdownReasons(w io.Writer, lines []behindLine, text func(behindLine) string) {
	for _, group := range byReason(lines) {
		reason := group[0].Reason
		if reason == "" {
			reason = "No reason is recorded for these rows."
		}
		fmt.Fprintf(w, "%s\n\n", reason)
		for _, l := range group {
			fmt.Fprintf(w, "- %s: %s. %s.\n", l.Section, l.label(), text(l))
		}
		fmt.Fprintln(w)
	}
}

// byReason groups lines by their reason, the group with the worst line first.
// The lines without a reason are the last group.
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

// standing says in how many of the compared lines stoat is first and in how many it is not,
// and how many of these differences may be noise.
func standing(tables []Table) string {
	var compared, first, slightlyFirst, openFirst, behind, slightlyBehind, openBehind int
	for _, t := range tables {
		for _, l := range t.Lines {
			if l.Best < 0 || !oursOf(l).ok() && !l.Lost {
				continue
			}
			compared++
			switch f := factor(l); {
			case f > 1:
				behind++
				slightlyBehind += oneIf(l.slight())
				openBehind += oneIf(!l.Ratios.Known())
			case f > 0 && f < 1:
				first++
				slightlyFirst += oneIf(l.slight())
				openFirst += oneIf(!l.Ratios.Known())
			}
		}
	}
	rest := ""
	if n := compared - first - behind; n > 0 {
		rest = fmt.Sprintf("The rest, %d, is equal or has no ratio. ", n)
	}
	return fmt.Sprintf("Of %d rows that compare stoat with a peer, stoat is first in %d and not first in %d. "+rest+
		"The difference may be noise in %d of the rows in which it is first, and in %d of those in which it is not. "+
		"Then the interval includes equality, or there is none and the difference is less than a tenth. "+
		"There is none in %d of the former and in %d of the latter.",
		compared, first, behind, slightlyFirst, slightlyBehind, openFirst, openBehind)
}

// oneIf returns 1 if the condition holds.
func oneIf(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

// oursOf returns our cell of a line.
func oursOf(l Line) Cell {
	i := slices.IndexFunc(l.Cells, func(c Cell) bool { return c.Store == ours })
	if i < 0 {
		return Cell{Store: ours}
	}
	return l.Cells[i]
}

// factor is how many times better the best peer is. It is infinite where stoat
// failed, and 0 where it is not known.
func factor(l Line) float64 {
	switch {
	case l.Lost:
		return math.Inf(1)
	case l.Best < 0:
		return 0
	case l.Theirs == 0 && !l.Higher && oursOf(l).ok() && oursOf(l).text() != number(0):
		// The peer's figure is zero, so there is no factor: list the line last.
		return behindFrom
	case math.IsNaN(l.Ratio) || l.Ratio == 0:
		return 0
	case l.Higher:
		return 1 / l.Ratio
	}
	return l.Ratio
}
