package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/interval"
	"github.com/stoatdb/stoat/bench/internal/stores"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// Markdown writes the full report of a record as Markdown.
func Markdown(out io.Writer, rec *comparison.Record) error {
	w := bufio.NewWriter(out)
	names := storeNames(rec)
	fmt.Fprintf(w, "# Comparison of %s\n\n%s\n\n", rec.Settings.Began.Format("2006-01-02"), headline(rec))
	if rec.Note != "" {
		fmt.Fprintf(w, "%s\n\n", rec.Note)
	}
	tables := Tables(rec, names)
	for _, t := range tables {
		markdownTable(w, t)
	}
	markdownMarks(w, rec, tables)
	markdownGrowth(w, rec)
	markdownLimits(w, rec)
	markdownAbove(w, rec, tables)
	markdownTroubles(w, rec)
	fmt.Fprintf(w, "## How the stores were configured\n\n%s\n\n", processorsNote)
	for _, s := range storesOf(rec) {
		fmt.Fprintf(w, "- **%s** %s: %s.\n", s.Name, s.Version, s.Options)
	}
	fmt.Fprintln(w)
	markdownHistory(w)
	markdownBehind(w, tables)
	markdownMissed(w, tables)
	return w.Flush()
}

// processorsNote says with how many Go processors the stores ran.
const processorsNote = "GOMAXPROCS is the number of processors of the machine, except where a store names another one. " +
	"A call into C that waits keeps a Go processor, so stores in C need more. A goroutine of Go that waits for a lock or a channel keeps none."

// headline names the machines, the scale, the revisions and the targets met.
func headline(rec *comparison.Record) string {
	times := "one run of each"
	if repeats := repeatsOf(rec); repeats > 1 {
		times = fmt.Sprintf("medians of up to %d runs", repeats)
	}
	text := fmt.Sprintf("%s. Scale %g, %s.", machinesText(rec), rec.Settings.Scale, times)
	if all := revisions(rec); all != "" {
		text += fmt.Sprintf(" stoat at %s.", all)
	}
	if len(machines(rec)) > 1 {
		text += " Figures are of all these machines together, and so are targets without a ratio. A ratio compares figures of one machine, unless its row has the mark " + apartMark + "."
	}
	text += " " + scoreText(rec) + skippedText(rec)
	if pace := rec.Settings.Pace; pace.Phase > 0 && (pace.Phase < workload.PhaseMin || repeatsOf(rec) < interval.SamplesMin) {
		text += fmt.Sprintf(" This is a first impression, which decides nothing: phases last %v. A full run has %d repeats and phases of %v.", pace.Phase, interval.SamplesMin, workload.PhaseMin)
	}
	if rec.Settings.Scale < 1 {
		text += " The targets are for the full scale; at this scale the verdicts mean nothing."
	}
	return text
}

// machines lists the machines of a record in the order of time, without their revisions.
func machines(rec *comparison.Record) (all []comparison.Machine) {
	for _, m := range rec.Machines() {
		if m = m.WithoutRevision(); !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

// machineName names a machine of a record that has several.
func machineName(i int) string { return fmt.Sprintf("Machine %d", i+1) }

// machinesText describes the machines of a record.
func machinesText(rec *comparison.Record) string {
	all := machines(rec)
	var texts []string
	for i, m := range all {
		text := fmt.Sprintf("%d processors (%s), memory %s, %s, %s, %s",
			m.Processors, m.Processor, memoryText(m.Memory), m.FileSystem, m.System, m.Go)
		if len(all) > 1 {
			text = machineName(i) + ": " + text
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ". ")
}

// memoryText writes an amount of memory. Linux writes kB and means KiB.
func memoryText(memory string) string {
	var kib float64
	if _, err := fmt.Sscanf(memory, "%f kB", &kib); err != nil {
		return memory
	}
	return fmt.Sprintf("%.1f GiB", kib/(1<<20))
}

// scoreText says how many targets are met.
func scoreText(rec *comparison.Record) string {
	count := score(rec)
	return fmt.Sprintf("Of %d targets, %d are met, %d missed, %d undecided and %d skipped. Undecided means that the runs differ too much, are too few, or ran too far apart or on different machines. %s",
		count[Met]+count[Missed]+count[Undecided]+count[Skipped], count[Met], count[Missed], count[Undecided], count[Skipped], lateTargets)
}

// lateTargets says which targets were not set before the runs. They are those of growing data,
// of the longest batches of loads, and of the processor seconds of new and of sorted keys.
const lateTargets = "Most targets are older than the runs, but 17 were added on 2026-11-28, after a first look at figures."

// skippedText says how many pairs of a store and a workload were skipped, and how many jobs of
// peers ran in one repeat only.
func skippedText(rec *comparison.Record) (text string) {
	if skipped, all := skippedPairs(rec); skipped > 0 {
		text += fmt.Sprintf(" %d of %d pairs of a store and a workload were skipped.", skipped, all)
	}
	if n := spared(rec); n > 0 {
		text += fmt.Sprintf(" %d jobs of peers did not run again. No target compares with these peers, or they were more than %d × behind the best one before.", n, inContention)
	}
	return text
}

// repeatsOf returns the number of the last repeat.
func repeatsOf(rec *comparison.Record) int {
	repeats := 0
	for _, r := range rec.Results {
		repeats = max(repeats, r.Job.Repeat)
	}
	return repeats
}

// storeNames lists the stores that ran at least one job, ours first.
func storeNames(rec *comparison.Record) []string {
	ran := map[string]bool{}
	for _, r := range rec.Results {
		ran[r.Job.Store] = ran[r.Job.Store] || r.Status != workload.Unavailable && r.Status != workload.Skipped
	}
	var names []string
	for _, info := range stores.All() {
		if ran[info.Name] {
			names = append(names, info.Name)
		}
	}
	return names
}

// storesOf describes the stores of a record. A record without descriptions gets
// the versions of its results and the options of this program.
func storesOf(rec *comparison.Record) []stores.Info {
	names := storeNames(rec)
	var infos []stores.Info
	for _, info := range stores.All() {
		if !slices.Contains(names, info.Name) {
			continue
		}
		for _, r := range rec.Results {
			if r.Job.Store == info.Name && r.Version != "" {
				info.Version = r.Version
			}
		}
		for _, n := range rec.Stores {
			if n.Name == info.Name {
				info.Version, info.Options = n.Version, n.Options
			}
		}
		infos = append(infos, info)
	}
	return infos
}

func markdownTable(w io.Writer, t Table) {
	fmt.Fprintf(w, "## %s\n\n", t.Title)
	if t.Note != "" {
		fmt.Fprintf(w, "%s\n\n", t.Note)
	}
	head := append([]string{""}, t.Stores...)
	head = append(head, "best peer", "ratio", "spread", "target", "95 %", "")
	markdownRow(w, head)
	markdownRow(w, slices.Repeat([]string{"---"}, len(head)))
	for _, l := range t.Lines {
		cells := []string{l.label()}
		for _, c := range l.Cells {
			cells = append(cells, c.text())
		}
		cells = append(cells, l.bestText(), l.ratioText(), l.spreadText(), l.targetText(), l.intervalText(), l.verdict())
		markdownRow(w, cells)
	}
	fmt.Fprintln(w)
}

func markdownRow(w io.Writer, cells []string) {
	fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}

// markdownBehind lists the rows in which a peer does better, the worst first.
func markdownBehind(w io.Writer, tables []Table) {
	lines := behind(tables)
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "## Where stoat is not first\n\n%s The reasons are those in the design. The worst row is first.\n\n", standing(tables))
	markdownReasons(w, lines, func(l behindLine) string {
		return fmt.Sprintf("%s against %s (%s)", l.oursText(), l.bestText(), l.worseText())
	})
}

func markdownLimits(w io.Writer, rec *comparison.Record) {
	fmt.Fprint(w, "## Limits of the machine, measured in the same run\n\n")
	t := limitsOf(rec)
	head := make([]string, 1+max(1, len(t.Machines)))
	copy(head[1:], t.Machines)
	markdownRow(w, head)
	markdownRow(w, slices.Repeat([]string{"---"}, len(head)))
	for _, l := range t.Lines {
		markdownRow(w, append([]string{l.Label}, l.Values...))
	}
	fmt.Fprintln(w)
}

// markdownTroubles lists the jobs that have no figure or a remark.
func markdownTroubles(w io.Writer, rec *comparison.Record) {
	troubles := troubles(rec)
	if len(troubles) == 0 {
		return
	}
	fmt.Fprint(w, "## Jobs that did not run, or ran with a remark\n\n")
	for _, r := range troubles {
		detail, _, _ := strings.Cut(r.Detail, "\n")
		fmt.Fprintf(w, "- %s, %s %s: %s: %s\n", r.Job.Store, r.Job.Workload, r.Job.Data, r.Status, detail)
	}
	fmt.Fprintln(w)
}

// troubles returns the results that have a detail, without repetitions.
func troubles(rec *comparison.Record) []workload.Result {
	var found []workload.Result
	seen := map[string]bool{}
	for _, r := range rec.Results {
		id := r.Job.Store + r.Job.Workload + r.Job.Data + string(r.Status)
		switch r.Status {
		case workload.Unavailable:
			id = r.Job.Store
		case workload.Skipped:
			// Many jobs of a store share one reason.
			id = r.Job.Store + r.Detail
		}
		if r.Detail == "" || seen[id] || isOutOfContention(r) {
			continue
		}
		seen[id] = true
		r.Detail = corrected(r)
		found = append(found, r)
	}
	return found
}

// revisions names the revisions of a record in the order of time: one or two, or the first and
// the last of more.
func revisions(rec *comparison.Record) string {
	var all []string
	for _, m := range rec.Machines() {
		if m.Revision != "" {
			all = append(all, m.Revision)
		}
	}
	all = slices.Compact(all)
	if n := len(all); n > 2 {
		return fmt.Sprintf("%d revisions, from %s to %s", n, all[0], all[n-1])
	}
	return strings.Join(all, ", later at ")
}
