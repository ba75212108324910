package report

import (
	"bufio"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/interval"
)

// figureRows are the rows of a front page, in its order.
var figureRows = []reasonKey{
	{"populate", "load_keys_per_s", "128"},
	{"get", "get_1_ns", "128"},
	{"get", "get_1_ns", "1k"},
	{"scan", "scan_whole_ns", "1k"},
	{"first-scan", "first_whole_ns", "1k"},
	{"commit", "commit_64_per_s", "128"},
	{"mixed-95", "mixed_per_s", "1k"},
	{"limited-read", "cold_16_per_s", "limited"},
}

// fewRepeats says what one run decides, or more that are still too few.
var fewRepeats = map[bool]string{true: "One run decides no target.", false: "So few runs decide no target."}

// Figures writes a few rows of a record and its worst losses as Markdown, for a
// front page. details is the link to the page of benchmarks.
func Figures(out io.Writer, rec *comparison.Record, details string) error {
	w := bufio.NewWriter(out)
	m := rec.Settings.Machine
	fmt.Fprintf(w, "From the [comparison](%s) of %s on %d processors, beside the best of the other stores in each row. %s `cd bench && make compare` repeats it.\n\n",
		details, rec.Settings.Began.Format("2006-01-02"), m.Processors, scoreText(rec))
	if repeatsOf(rec) < interval.SamplesMin {
		fmt.Fprintf(w, "%s\n\n", fewRepeats[repeatsOf(rec) == 1])
	}
	for _, text := range cautions(rec) {
		fmt.Fprintf(w, "%s\n\n", text)
	}
	markdownRow(w, []string{"", "stoat", "best other"})
	markdownRow(w, []string{"---", "---", "---"})
	tables := Tables(rec, storeNames(rec))
	var shown []Table
	for _, key := range figureRows {
		if t, l, ok := findLine(tables, key); ok && l.Best >= 0 {
			markdownRow(w, []string{t.Title + ": " + l.label(), l.oursText(), l.bestText()})
			shown = append(shown, Table{Section: t.Section, Lines: []Line{l}})
		}
	}
	losses := worstLosses(behind(tables))
	for _, l := range losses {
		markdownRow(w, []string{"**loses:** " + l.Section + ": " + l.label(), l.oursText(), l.bestText()})
		shown = append(shown, Table{Section: Section{Title: l.Section}, Lines: []Line{l.Line}})
	}
	fmt.Fprintln(w)
	if losses != nil {
		fmt.Fprintf(w, "The losses are the worst row of each of %d reasons, and then cold seeks and the bytes written by overwriting. %s\n\n", lossesShown, lossesNote)
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
