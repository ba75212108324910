package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// inContention is how many times worse than the best peer a peer may be and still run in the
// later repeats. Repeats of one run rarely differ by as much.
const inContention = 3

// OutOfContention returns why a peer does not run a job of a later repeat, or "" if it must
// run. The reason is that in the repeats before it was too far behind the best peer, in every
// row whose target compares with peers. A job that loads a database for others always runs.
//
// A target needs the repeats of the best peer only, so this saves hours. If the peer has the
// best figure of a row after all, the row has too few repeats, and is undecided. A job that
// did not run in any repeat before, for lack of time, space or a library, must run.
func OutOfContention(rec *comparison.Record, job workload.Job) string {
	w, known := workload.Find(job.Workload)
	if job.Repeat == 1 || isOurs(job.Store) || !known || w.Keeps {
		return ""
	}
	c := collect(rec, storeNames(rec))
	if !c.answered(Row{Workload: job.Workload, Data: job.Data}, job.Store) {
		return ""
	}
	nearest := math.Inf(1)
	for _, row := range comparedRows(job) {
		behind, known := c.behindBest(row, job.Store)
		if !known || behind <= inContention {
			return ""
		}
		nearest = min(nearest, behind)
	}
	if math.IsInf(nearest, 1) {
		return "no target compares with it: " + comparison.OutOfContention
	}
	return fmt.Sprintf("at least %.1f × behind the best peer: %s", nearest, comparison.OutOfContention)
}

// comparedRows lists the rows of a job whose target compares with peers.
func comparedRows(job workload.Job) []Row {
	var rows []Row
	for _, s := range Sections() {
		for _, row := range s.Rows {
			if row.Target.Kind == Ratio && row.Data == job.Data && row.Workload == job.Workload {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// behindBest returns how many times worse than the best peer a store is in a row. It is
// infinite for a store that cannot do what the row measures. It is not known for one that
// failed or did not run.
func (c results) behindBest(row Row, store string) (times float64, known bool) {
	mine := c.cell(row, store)
	if mine.Status == workload.Skipped && isNeedless(mine.Detail) {
		return math.Inf(1), true
	}
	line := c.line(row)
	if !mine.ok() || mine.Median <= 0 || line.Best < 0 || line.Cells[line.Best].Median <= 0 {
		return 0, false
	}
	times = pair(mine, line.Cells[line.Best]).ratio()
	if row.Higher {
		times = 1 / times
	}
	return times, true
}

// isOutOfContention returns whether a result says that the job did not run, because the
// store was too far behind.
func isOutOfContention(r workload.Result) bool {
	return r.Status == workload.Skipped && strings.HasSuffix(r.Detail, comparison.OutOfContention)
}

// spared counts the jobs that did not run again because their store was too far behind.
// Records up to 2026-11-28 also passed over jobs that had not run before.
func spared(rec *comparison.Record) int {
	c, n := collect(rec, storeNames(rec)), 0
	for _, r := range rec.Results {
		if isOutOfContention(r) && c.answered(Row{Workload: r.Job.Workload, Data: r.Job.Data}, r.Job.Store) {
			n++
		}
	}
	return n
}
