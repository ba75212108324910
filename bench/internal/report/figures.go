package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/interval"
)

// figureRows begin the figures of a front page: one row for each operation, of values of 1 KiB
// and of one goroutine where there is a choice. Loads show both ends of their time.
var figureRows = []reasonKey{
	{"limited-load", "load_keys_per_s", "limited"},
	{"limited-load", "settled_keys_per_s", "limited"},
	{"get", "get_1_ns", "1k"},
	{"scan", "scan_whole_ns", "1k"},
	{"commit", "commit_1_per_s", "128"},
	{"mixed-50", "mixed_per_s", "1k"},
	{"limited-read", "cold_1_per_s", "limited"},
}

// figuresMost is the number of rows that a front page has at most.
const figuresMost = 16

// figures are the lines of a front page.
type figures struct {
	operations []behindLine // those of figureRows

	// missed has, of each section, the row furthest beyond its target in which a peer is better,
	// the furthest first. Each has a reason of its own. cut is the number of those left out,
	// because there are too many.
	missed []behindLine
	cut    int

	untargeted []behindLine // the losses without a target that are always shown
}

// chooseFigures chooses the lines of a front page.
func chooseFigures(tables []Table) (f figures) {
	for _, key := range figureRows {
		if t, l, ok := findLine(tables, key); ok && l.Best >= 0 {
			f.operations = append(f.operations, behindLine{Line: l, Section: t.Title, Reason: behindReason(l)})
		}
	}
	for _, l := range behind(tables) {
		if l.Target.Kind == NoTarget && isAlwaysShown(l) {
			f.untargeted = append(f.untargeted, l)
		}
	}
	for _, l := range furthest(tables, isBehind) {
		switch {
		case slices.ContainsFunc(f.operations, func(o behindLine) bool { return o.Row == l.Row }):
		case explained(f.operations, l.Reason), explained(f.missed, l.Reason):
		case len(f.operations)+len(f.missed)+len(f.untargeted) < figuresMost:
			f.missed = append(f.missed, l)
		default:
			f.cut++
		}
	}
	return f
}

// lines returns all lines in their order.
func (f figures) lines() []behindLine { return slices.Concat(f.operations, f.missed, f.untargeted) }

// note says by which rules the lines were chosen.
func (f figures) note() string {
	text := fmt.Sprintf("The first %d rows have one operation each, whatever its result. A factor is the median of those of the repeats.", len(f.operations))
	if f.missed != nil {
		text += fmt.Sprintf(" The next %d are losses: of each section of the comparison, the row furthest behind its target in which another store is better. "+
			"A section is left out if a row above has the same cause.", len(f.missed))
	}
	if f.cut > 0 {
		text += fmt.Sprintf(" %d losses nearer to their targets are in the comparison only.", f.cut)
	}
	if f.untargeted != nil {
		text += " After these come losses without a target."
	}
	return text
}

// behindReason returns the reason of a line in which a peer is better. A win explains no loss.
func behindReason(l Line) string {
	if isBehind(l) {
		return reasonOf(l.Row)
	}
	return ""
}

// fewRepeats says what one run decides, or more that are still too few.
var fewRepeats = map[bool]string{true: "One run decides no target.", false: "So few runs decide no target."}

// processors says how many processors the machines of a record have.
func processors(rec *comparison.Record) string {
	var all []string
	for _, m := range machines(rec) {
		if n := strconv.Itoa(m.Processors); !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return strings.Join(all, " and ")
}

// Figures writes the rows of chooseFigures as Markdown, for a front page. details is the link
// to the page of benchmarks.
func Figures(out io.Writer, rec *comparison.Record, details string) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "From the [comparison](%s) of %s on %s processors, beside the best of the other stores in each row. %s `cd bench && make compare` repeats it.\n\n",
		details, rec.Settings.Began.Format("2006-01-02"), processors(rec), scoreText(rec))
	if repeatsOf(rec) < interval.SamplesMin {
		fmt.Fprintf(w, "%s\n\n", fewRepeats[repeatsOf(rec) == 1])
	}
	for _, text := range cautions(rec) {
		fmt.Fprintf(w, "%s\n\n", text)
	}
	tables := Tables(rec, storeNames(rec))
	chosen := chooseFigures(tables)
	fmt.Fprintf(w, "%s\n\n", chosen.note())
	markdownRow(w, []string{"", "stoat", "best other", "stoat is"})
	markdownRow(w, []string{"---", "--:", "--:", "--:"})
	var shown []Table
	for _, l := range chosen.lines() {
		markdownRow(w, []string{l.Section + ": " + l.label(), l.oursText(), l.bestText(), l.standingText()})
		shown = append(shown, Table{Section: Section{Title: l.Section}, Lines: []Line{l.Line}})
	}
	fmt.Fprintln(w)
	if slices.ContainsFunc(chosen.lines(), func(l behindLine) bool { return l.perhaps() }) {
		fmt.Fprintf(w, "%s\n\n", perhapsNote)
	}
	markdownMarks(w, rec, shown)
	return w.Flush()
}

// findLine returns the line of a row with its table. A row of a share of the
// device is another row.
func findLine(tables []Table, key reasonKey) (Table, Line, bool) {
	for _, t := range tables {
		for _, l := range t.Lines {
			if l.Workload == key.workload && l.Metric == key.metric && l.Data == key.data && l.PerLimit == "" {
				return t, l, true
			}
		}
	}
	return Table{}, Line{}, false
}
