package report

import (
	"math"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/interval"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// A Verdict says whether stoat reaches the target of a row.
type Verdict string

// The verdicts. A row without a target has none.
const (
	Met       Verdict = "met"       // the whole interval reaches the target
	Missed    Verdict = "missed"    // the whole interval lies beyond it, or stoat failed
	Undecided Verdict = "undecided" // the interval overlaps the target, or there are too few repeats
	Skipped   Verdict = "skipped"   // stoat, or a peer that the target needs, was not measured
)

// skippedIf returns Skipped for a row with a target.
func skippedIf(row Row) Verdict {
	if row.Target.Kind == NoTarget {
		return ""
	}
	return Skipped
}

// judge compares stoat's figure with the target of the row. Where stoat failed,
// it misses the target.
func (c results) judge(l *Line, mine Cell) {
	l.Verdict = skippedIf(l.Row)
	switch {
	case l.Target.Kind == NoTarget:
		return
	case mine.failed():
		l.Verdict = Missed
		return
	case !mine.ok():
		return
	}
	switch l.Target.Kind {
	case Ratio:
		if math.IsNaN(l.Ratio) {
			return
		}
		l.Figure, l.Judged = l.Ratio, l.Ratios
		l.Verdict = l.amongPeers(mine)
	case Absolute:
		l.Figure, l.Judged = mine.Median, interval.Typical(samplesOf(mine))
		l.Verdict = decide(l.Judged, l.Target.Bound, l.Higher)
	case Own:
		then := c.cell(baselineOf(l.Row), ours)
		if !then.ok() || then.Median <= 0 {
			return
		}
		p := pair(mine, then)
		l.Figure, l.Judged = p.ratio(), p.interval()
		l.Apart, l.Few = l.Apart || p.apart, l.Few || p.few()
		l.Verdict = decide(l.Judged, l.Target.Bound, l.Higher)
	}
	// A peer that was not measured could be better than the best of the others.
	if l.Target.Kind == Ratio && l.Verdict != Missed && l.Missing != nil {
		l.Verdict = Skipped
	}
}

// unsure is by how much a ratio of few repeats may be wrong. Of the single ratios in the record
// of 2026-11-28, 97 % lie within this factor of the median of their row and peer.
const unsure = 2

// amongPeers compares the ratios to all peers with a target. The target is met if it is met
// against every peer with enough repeats, the best one included. A peer with fewer must lie so
// far behind that its ratio reaches the target even if it is wrong by the factor unsure.
// The target is missed if it is missed against one peer.
func (l *Line) amongPeers(mine Cell) Verdict {
	verdict := decide(l.Ratios, l.Target.Bound, l.Higher)
	for i, other := range l.Cells {
		if i == l.Best || isOurs(other.Store) || !other.ok() {
			continue
		}
		p := pair(mine, other)
		switch against := decide(p.interval(), l.Target.Bound, l.Higher); {
		case against == Missed:
			verdict = Missed
		case verdict == Missed || against == Met:
		case against == Undecided && p.interval().Known(), !p.clears(l.Target.Bound, unsure, l.Higher):
			verdict = Undecided
		}
	}
	return verdict
}

// decide compares an interval with the bound of a target.
func decide(i interval.Interval, bound float64, higher bool) Verdict {
	switch {
	case !i.Known():
		return Undecided
	case higher && i.Low >= bound, !higher && i.High <= bound:
		return Met
	case higher && i.High < bound, !higher && i.Low > bound:
		return Missed
	}
	return Undecided
}

// missing lists the peers whose job has no result although the run names them. Time or
// space was short, or the program was built without the store. A store that failed, and a
// variant that equals its plain store, are not missing.
func (c results) missing(row Row) []string {
	w, known := workload.Find(row.Workload)
	var names []string
	for _, store := range c.peers {
		if known && w.Runs(store) && !c.answered(row, store) {
			names = append(names, store)
		}
	}
	return names
}

// answered returns whether a store was measured, failed, or need not run.
func (c results) answered(row Row, store string) bool {
	return slices.ContainsFunc(c.byJob[jobName{store, row.Workload, row.Data}], func(r measured) bool {
		switch r.Status {
		case workload.Unavailable:
			return false
		case workload.Skipped:
			return isNeedless(r.Detail) || loadFailed(r.Result)
		}
		return true
	})
}

// loadFailed returns whether a job did not run because the load of its data failed. That is
// a failure of the store, unless the load did not run either.
func loadFailed(r workload.Result) bool {
	how, found := strings.CutPrefix(r.Detail, comparison.LoadEnded)
	return found && r.Status == workload.Skipped &&
		!strings.HasPrefix(how, string(workload.Skipped)) && !strings.HasPrefix(how, string(workload.Unavailable))
}

// isNeedless returns whether a job was skipped because its store cannot do what it measures,
// or would repeat the plain store.
func isNeedless(detail string) bool {
	return slices.ContainsFunc([]string{
		comparison.SameAsPlain, workload.NotBound, notOffered, workload.HasNone, workload.NotMeasured,
	}, func(reason string) bool { return strings.HasSuffix(detail, reason) })
}

// notOffered is the text of older records for workload.NotBound. It is wrong for LMDB,
// goleveldb and RocksDB, which have transactions.
const notOffered = "the store offers no such transactions"

// denied maps a store to the workloads of which older records say workload.HasNone, although
// the store has the feature.
var denied = map[string][]string{"bbolt": {"checkpoint"}, "lmdb": {"backup", "checkpoint", "followers"}}

// corrected returns the detail of a result in today's words.
func corrected(r workload.Result) string {
	if slices.Contains(denied[r.Job.Store], r.Job.Workload) {
		return strings.Replace(r.Detail, workload.HasNone, workload.NotMeasured, 1)
	}
	return strings.Replace(r.Detail, notOffered, workload.NotBound, 1)
}

// A Score counts the verdicts of a record.
type Score map[Verdict]int

// score counts the verdicts of all rows, those without any figure too.
func score(rec *comparison.Record) Score {
	c := collect(rec, storeNames(rec))
	count := Score{}
	for _, s := range Sections() {
		for _, row := range s.Rows {
			if v := c.line(row).Verdict; v != "" {
				count[v]++
			}
		}
	}
	return count
}

// skippedPairs counts the pairs of a store and a workload on a dataset that the
// run should have measured and did not, and all pairs.
func skippedPairs(rec *comparison.Record) (skipped, all int) {
	c := collect(rec, storeNames(rec))
	pairs, names := map[Row]bool{}, map[string]bool{}
	for _, r := range rec.Results {
		pairs[Row{Workload: r.Job.Workload, Data: r.Job.Data}] = true
		names[r.Job.Store] = true
	}
	for row := range pairs {
		w, known := workload.Find(row.Workload)
		for store := range names {
			if known && !w.Runs(store) {
				continue
			}
			all++
			if !c.answered(row, store) {
				skipped++
			}
		}
	}
	return skipped, all
}
