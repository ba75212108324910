package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// inContention is how far from the best peer a peer may be and still run in the later
// repeats. Repeats of one run differ by less.
const inContention = 2

// OutOfContention returns why a peer does not run a job of a later repeat, or "" if it must
// run. The reason is that so far it was too far from the best peer in every row whose
// target compares with peers.
//
// A target needs the repeats of the best peer only, so this saves hours and changes no
// verdict.
func OutOfContention(rec *comparison.Record, job workload.Job) string {
	if job.Repeat == 1 || isOurs(job.Store) {
		return ""
	}
	c := collect(rec, storeNames(rec))
	nearest := math.Inf(1)
	for _, row := range comparedRows(job) {
		away, known := c.distance(row, job.Store)
		if !known || away <= inContention {
			return ""
		}
		nearest = min(nearest, away)
	}
	if math.IsInf(nearest, 1) {
		return "no target compares with it: " + comparison.OutOfContention
	}
	return fmt.Sprintf("at least %.1f × as far as the best peer: %s", nearest, comparison.OutOfContention)
}

// comparedRows lists the rows that a job fills and whose target compares with peers. A job
// that loads a database for others also counts for the rows that those fill.
func comparedRows(job workload.Job) []Row {
	fills := []string{job.Workload}
	if w, ok := workload.Find(job.Workload); ok && w.Keeps {
		for _, other := range workload.All() {
			if slices.Contains(other.Data, job.Data) && !other.Fresh {
				fills = append(fills, other.Name)
			}
		}
	}
	var rows []Row
	for _, s := range Sections() {
		for _, row := range s.Rows {
			if row.Target.Kind == Ratio && row.Data == job.Data && slices.Contains(fills, row.Workload) {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// distance returns how many times worse than the best peer a store is in a row. It is
// infinite for a store that skipped the row. It is not known for one that failed.
func (c results) distance(row Row, store string) (away float64, known bool) {
	line := c.line(row)
	if line.Best < 0 {
		return math.Inf(1), true
	}
	best, mine := line.Cells[line.Best], c.cell(row, store)
	switch {
	case mine.Status == workload.Skipped:
		return math.Inf(1), true
	case !mine.ok() || best.Median <= 0 || mine.Median <= 0:
		return 0, false
	}
	if row.Higher {
		return best.Median / mine.Median, true
	}
	return mine.Median / best.Median, true
}

// isOutOfContention returns whether a result says that the job did not run, because the
// store was too far behind.
func isOutOfContention(r workload.Result) bool {
	return r.Status == workload.Skipped && strings.HasSuffix(r.Detail, comparison.OutOfContention)
}

// spared counts the jobs that did not run because their store was too far behind.
func spared(rec *comparison.Record) int {
	n := 0
	for _, r := range rec.Results {
		if isOutOfContention(r) {
			n++
		}
	}
	return n
}
