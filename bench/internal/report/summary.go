package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/comparison"
)

// A metricKey names a metric of a workload, whatever the dataset.
type metricKey struct{ workload, metric string }

// headlineMetrics are the rows that the summary always has. It adds the misses of summaryRows.
// The full report has all rows.
var headlineMetrics = map[metricKey]bool{
	{"populate", "load_keys_per_s"}:               true,
	{"limited-load", "settled_keys_per_s"}:        true,
	{"churn", "written_settled_s"}:                true,
	{"populate", "settled_written_per_user_byte"}: true,
	{"open", "open_ms"}:                           true,
	{"get", "get_1_ns"}:                           true,
	{"first-scan", "first_whole_ns"}:              true,
	{"scan", "scan_whole_ns"}:                     true,
	{"scan", "keys_ns"}:                           true,
	{"reopen", "reopened_1_ns"}:                   true,
	{"counter", "counter_per_s"}:                  true,
	{"queue", "queue_10000_per_s"}:                true,
	{"beside", "seek20_slowdown"}:                 true,
	{"cold-scan", "cold_scan_ns"}:                 true,
	{"cold-get", "cold_1_per_s"}:                  true,
	{"cold-get", "cold_16_per_s"}:                 true,
	{"cold-seek", "cold_seek_1_per_s"}:            true,
	{"cold-seek", "cold_seek_16_per_s"}:           true,
	{"seek", "seek_1_ns"}:                         true,
	{"churn", "total_s"}:                          true,
	{"churn", "space_peak_per_live_byte"}:         true,
	{"churn", "written_per_user_byte"}:            true,
	{"commit", "commit_1_per_s"}:                  true,
	{"commit", "commit_64_per_s"}:                 true,
	{"commit", "commit_64_p99_us"}:                true,
	{"mixed-50", "mixed_per_s"}:                   true,
	{"mixed-95", "mixed_per_s"}:                   true,
	{"mixed-50", "mixed_get_p999_us"}:             true,
	{"limited-load", "load_keys_per_s"}:           true,
	{"limited-read", "cold_1_per_s"}:              true,
	{"limited-read", "cold_16_per_s"}:             true,
	{"unique", "load_keys_per_s"}:                 true,
	{"json", "size_per_live_byte"}:                true,
}

// Summary writes the headline rows of a record as Markdown, each with the best
// peer, and the worst losses. fullReport is the link to the full report.
func Summary(out io.Writer, rec *comparison.Record, fullReport string) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "Recorded on %s. %s\n\n", rec.Settings.Began.Format("2006-01-02"), headline(rec))
	fmt.Fprintf(w, "The [full report](%s) has all rows of all stores, and the remarks on the run. %s\n\n", fullReport, chosenNote)
	for _, text := range cautions(rec) {
		fmt.Fprintf(w, "%s\n\n", text)
	}
	tables := Tables(rec, storeNames(rec))
	shown := summaryTable(w, tables)
	if slices.ContainsFunc(shown, func(t Table) bool { return slices.ContainsFunc(t.Lines, Line.perhaps) }) {
		fmt.Fprintf(w, "%s\n\n", perhapsNote)
	}
	markdownMarks(w, rec, shown)
	summaryBehind(w, tables)
	return w.Flush()
}

// cautionStart begins a paragraph of a note that the summary repeats: what a reader of the
// ratios must know.
const cautionStart = "Caution: "

// cautions returns these paragraphs.
func cautions(rec *comparison.Record) []string {
	var all []string
	for paragraph := range strings.SplitSeq(rec.Note, "\n\n") {
		if strings.HasPrefix(paragraph, cautionStart) {
			all = append(all, paragraph)
		}
	}
	return all
}

func isHeadline(row Row) bool {
	return row.PerLimit == "" && headlineMetrics[metricKey{row.Workload, row.Metric}]
}

// chosenNote says which rows the summary has.
const chosenNote = "The table has fixed headline rows, and every row whose figure is short of a target that compares with peers. It also has, of each section, the row furthest behind its target. " +
	"A factor is the median of those of the repeats, so it may differ from the ratio of the two figures beside it."

// summaryRows returns the lines of a table that the summary has: the headlines, each whose
// figure lies beyond a target that compares with peers, and the one furthest beyond its target.
func summaryRows(t Table) (rows []Line) {
	worst := furthest([]Table{t}, func(Line) bool { return true })
	for _, l := range t.Lines {
		if isHeadline(l.Row) || l.Target.Kind == Ratio && shortfall(l) > 1 || worst != nil && worst[0].Row == l.Row {
			rows = append(rows, l)
		}
	}
	return rows
}

// summaryTable writes the rows of summaryRows as one table, in which each section begins
// with its title. It returns these rows.
func summaryTable(w io.Writer, tables []Table) (shown []Table) {
	markdownRow(w, []string{"", "stoat", "best peer", "stoat is", "target"})
	markdownRow(w, []string{"---", "--:", "--:", "--:", "---"})
	for _, t := range tables {
		rows := summaryRows(t)
		if rows == nil {
			continue
		}
		markdownRow(w, []string{"**" + t.Title + "**", "", "", "", ""})
		for _, l := range rows {
			markdownRow(w, []string{l.label(), l.oursText(), l.bestText(), l.standingText(), l.aimText()})
		}
		shown = append(shown, Table{Section: t.Section, Lines: rows})
	}
	fmt.Fprintln(w)
	return shown
}

// standingText writes how many times better or worse our figure is than the
// best peer's, and whether that is sure.
func (l Line) standingText() string {
	f := factor(l)
	perhaps := ""
	if !l.sure() {
		perhaps = "perhaps "
	}
	switch {
	case l.Lost, math.IsNaN(l.Ratio), f == 0:
		return "–"
	case number(f) == number(1):
		return "equal"
	case f > 1:
		return perhaps + number(f) + " × worse"
	}
	return perhaps + number(1/f) + " × better"
}

// aimText writes the target of the line and its verdict.
func (l Line) aimText() string {
	if l.Target.Kind == NoTarget {
		return ""
	}
	return l.targetText() + ": " + string(l.Verdict)
}

// perhaps returns whether the standing of the line is not sure.
func (l Line) perhaps() bool { return strings.HasPrefix(l.standingText(), "perhaps") }

// summaryBehind writes the losses of worstLosses. Of the rows without a target, those without a
// reason are left to the full report.
func summaryBehind(w io.Writer, tables []Table) {
	if len(behind(tables)) == 0 {
		return
	}
	fmt.Fprintf(w, "### Where stoat is not first\n\n%s These are, of each section, the row furthest behind its target in which a peer is better. "+
		"Then come the worst other rows with a recorded reason. Each reason has one row. %s\n\n", standing(tables), lossesNote)
	for _, worst := range worstLosses(tables) {
		reason := worst.Reason
		if reason == "" && shortfall(worst.Line) <= 1 {
			continue
		}
		fmt.Fprintf(w, "- %s: %s. %s against %s (%s). %s\n", worst.Section, worst.label(), worst.oursText(), worst.bestText(),
			worst.worseText(), cmp.Or(reason, "No reason is recorded."))
	}
	fmt.Fprintln(w)
}
