package report

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/stoatdb/stoat/bench/internal/comparison"
)

// A judgedTwice is a row with a target, as two runs judge it.
type judgedTwice struct{ earlier, later Line }

// contradicts returns whether one run says that the target is met, and the other that it is
// missed.
func (j judgedTwice) contradicts() bool {
	a, b := j.earlier.Verdict, j.later.Verdict
	return a == Met && b == Missed || a == Missed && b == Met
}

// measured returns whether a run has a figure or a failure of stoat in the row.
func (j judgedTwice) measured() bool {
	return slices.ContainsFunc([]Line{j.earlier, j.later}, func(l Line) bool { return oursOf(l).ok() || oursOf(l).failed() })
}

// A judgedSection holds the rows of a section that have a target.
type judgedSection struct {
	title string
	rows  []judgedTwice
}

// judgeTwice judges every target by both runs. The targets are those of this program, even
// if a run had others.
func judgeTwice(earlier, later *comparison.Record) []judgedSection {
	a, b := collect(earlier, storeNames(earlier)), collect(later, storeNames(later))
	var all []judgedSection
	for _, s := range Sections() {
		judged := judgedSection{title: s.Title}
		for _, row := range s.Rows {
			if row.Target.Kind != NoTarget {
				judged.rows = append(judged.rows, judgedTwice{a.line(row), b.line(row)})
			}
		}
		if judged.rows != nil {
			all = append(all, judged)
		}
	}
	return all
}

// Agreement writes as Markdown how the verdicts of two runs agree. It counts each pair of
// verdicts, and names the targets on which the runs contradict each other. Then it shows all
// figures side by side.
func Agreement(out io.Writer, earlier, later *comparison.Record) error {
	w := bufio.NewWriter(out)
	first, second := dayOf(earlier), dayOf(later)
	sections := judgeTwice(earlier, later)
	fmt.Fprintf(w, "# The runs of %s and %s\n\n", first, second)
	agreementCounts(w, first, second, sections)
	agreementContradictions(w, sections)
	for _, s := range sections {
		agreementTable(w, first, second, s)
	}
	return w.Flush()
}

func dayOf(rec *comparison.Record) string { return rec.Settings.Began.Format("2006-01-02") }

// agreementCounts writes how many targets have each pair of verdicts.
func agreementCounts(w io.Writer, first, second string, sections []judgedSection) {
	count, all := map[[2]Verdict]int{}, 0
	for _, s := range sections {
		for _, j := range s.rows {
			count[[2]Verdict{j.earlier.Verdict, j.later.Verdict}]++
			all++
		}
	}
	fmt.Fprintf(w, "Both runs are judged by the same %d targets. The lines are the verdicts of %s, the columns those of %s.\n\n", all, first, second)
	verdicts := []Verdict{Met, Missed, Undecided, Skipped}
	head := []string{""}
	for _, v := range verdicts {
		head = append(head, string(v))
	}
	markdownRow(w, head)
	markdownRow(w, append([]string{"---"}, slices.Repeat([]string{"--:"}, len(verdicts))...))
	for _, a := range verdicts {
		cells := []string{string(a)}
		for _, b := range verdicts {
			cells = append(cells, fmt.Sprint(count[[2]Verdict{a, b}]))
		}
		markdownRow(w, cells)
	}
	fmt.Fprintln(w)
}

// agreementContradictions lists the targets that are met in one run and missed in the other.
func agreementContradictions(w io.Writer, sections []judgedSection) {
	found := false
	for _, s := range sections {
		for _, j := range s.rows {
			if !j.contradicts() {
				continue
			}
			if !found {
				fmt.Fprint(w, "The runs contradict each other:\n\n")
			}
			found = true
			fmt.Fprintf(w, "- %s: %s. %s: %s, then %s: %s.\n", s.title, j.later.Row.label(),
				j.earlier.Verdict, j.earlier.judgedText(), j.later.Verdict, j.later.judgedText())
		}
	}
	if !found {
		fmt.Fprint(w, "No target is met in one run and missed in the other.\n")
	}
	fmt.Fprintln(w)
}

// agreementTable writes the figures of a section side by side.
func agreementTable(w io.Writer, first, second string, s judgedSection) {
	if !slices.ContainsFunc(s.rows, judgedTwice.measured) {
		return
	}
	fmt.Fprintf(w, "## %s\n\n", s.title)
	head := []string{"", "target", first, "", second, ""}
	markdownRow(w, head)
	markdownRow(w, slices.Repeat([]string{"---"}, len(head)))
	for _, j := range s.rows {
		if j.measured() {
			markdownRow(w, []string{j.later.Row.label(), j.later.targetText(), j.earlier.judgedText(), j.earlier.verdict(),
				j.later.judgedText(), j.later.verdict()})
		}
	}
	fmt.Fprintln(w)
}

// judgedText writes the figure that the target of a line limits, with its interval.
func (l Line) judgedText() string {
	text := l.figureText()
	if !math.IsNaN(l.Figure) && l.Judged.Known() {
		text += fmt.Sprintf(" (%s)", l.intervalText())
	}
	return text
}
