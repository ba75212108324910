package report

import (
	"math"
	"slices"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/interval"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// ours is the store that the report compares with the best of the others.
const ours = "stoat"

// A Cell is the figure of one store in one row.
type Cell struct {
	Store            string
	Status           workload.Status // empty if the job has not run
	Detail           string
	Median, Min, Max float64 // if the status is OK; the median is the middle of the repeats
	Repeats          int
	Samples          map[int]sample // the figure of each repeat
}

// ok returns whether the cell has a figure.
func (c Cell) ok() bool { return c.Status == workload.OK && c.Repeats > 0 }

// failed returns whether the store's job ran and did not end well.
func (c Cell) failed() bool {
	switch c.Status {
	case workload.Wrong, workload.Failed, workload.Killed, workload.TimedOut:
		return true
	}
	return false
}

// A Line is a row with its figures.
type Line struct {
	Row
	Cells []Cell

	Best   int     // index of the best peer's cell; -1 if there is none
	Ratio  float64 // to the best peer: the middle of the ratios of the repeats; NaN if a figure is missing
	Spread float64 // the largest (max-min)/median of the cells
	Lost   bool    // we have no figure, because we failed where a peer has one

	// Ours and Theirs are the middles of stoat and of the best peer over the repeats that the
	// ratio rests on. Shared says that one of them has more repeats, which do not count in it.
	Ours, Theirs float64
	Shared       bool

	Ratios  interval.Interval // of the ratio to the best peer, pair by pair
	Figure  float64           // what the target limits; NaN if it is not known
	Judged  interval.Interval // of Figure
	Verdict Verdict

	// Missing are the peers without a figure for which the run is to blame, not
	// the store.
	Missing []string

	// Few says that too few repeats are behind the ratio or behind the target's figure, though
	// the run has enough.
	Few bool

	// Apart says that two figures never ran soon after each other on one machine. They are
	// those of the ratio, or of a target that compares two figures of stoat.
	Apart bool
}

// A Table is a section with its lines.
type Table struct {
	Section
	Stores []string // in the order of each line's cells
	Lines  []Line
}

// Tables computes all tables of a record. It leaves out lines without a figure,
// sections without lines, and in each section the stores that ran no job of it.
func Tables(rec *comparison.Record, stores []string) []Table {
	c := collect(rec, stores)
	var tables []Table
	for _, s := range Sections() {
		t := Table{Section: s}
		for _, row := range s.Rows {
			if l := c.line(row); slices.ContainsFunc(l.Cells, Cell.ok) {
				t.Lines = append(t.Lines, l)
			}
		}
		if t.Lines != nil {
			tables = append(tables, t.withoutAbsent(stores))
		}
	}
	return tables
}

// withoutAbsent removes the stores that have neither a figure nor a failure in
// any line.
func (t Table) withoutAbsent(stores []string) Table {
	hasCell := func(i int) bool {
		return slices.ContainsFunc(t.Lines, func(l Line) bool { return l.Cells[i].ok() || l.Cells[i].failed() })
	}
	var kept []int
	for i, store := range stores {
		if hasCell(i) {
			kept = append(kept, i)
			t.Stores = append(t.Stores, store)
		}
	}
	for n := range t.Lines {
		l := &t.Lines[n]
		cells := l.Cells
		l.Cells = nil
		for _, i := range kept {
			l.Cells = append(l.Cells, cells[i])
		}
		l.Best = slices.Index(kept, l.Best)
	}
	return t
}

// results holds the results of a record by store, workload and dataset.
type results struct {
	stores []string
	peers  []string // all peers that the run named, those it could not run too
	byJob  map[jobName][]measured
	limits map[comparison.Machine]map[string]float64

	repeats int // the number of the last repeat
}

type jobName struct{ store, workload, data string }

// A measured result knows the machine that measured it, with its revision of stoat.
type measured struct {
	workload.Result
	machine comparison.Machine
}

func collect(rec *comparison.Record, stores []string) results {
	c := results{stores: stores, byJob: map[jobName][]measured{}, limits: medianLimits(rec), repeats: repeatsOf(rec)}
	for i, r := range rec.Results {
		name := jobName{r.Job.Store, r.Job.Workload, r.Job.Data}
		c.byJob[name] = append(c.byJob[name], measured{r, rec.MachineOf(i)})
		if !isOurs(r.Job.Store) && !slices.Contains(c.peers, r.Job.Store) {
			c.peers = append(c.peers, r.Job.Store)
		}
	}
	return c
}

// medianLimits takes the median of each limit on each machine.
func medianLimits(rec *comparison.Record) map[comparison.Machine]map[string]float64 {
	values := map[comparison.Machine]map[string][]float64{}
	for _, l := range rec.Limits {
		m := l.Machine.WithoutRevision()
		if values[m] == nil {
			values[m] = map[string][]float64{}
		}
		for name, v := range l.Values {
			values[m][name] = append(values[m][name], v)
		}
	}
	medians := map[comparison.Machine]map[string]float64{}
	for m, byName := range values {
		medians[m] = map[string]float64{}
		for name, v := range byName {
			medians[m][name] = median(v)
		}
	}
	return medians
}

func median(v []float64) float64 {
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// cell gathers the repeats of one store. A wrong answer in any repeat spoils the
// cell. After any other failure the successful repeats still count.
func (c results) cell(row Row, store string) Cell {
	cell := Cell{Store: store, Samples: map[int]sample{}}
	var values []float64
	for _, r := range c.byJob[jobName{store, row.Workload, row.Data}] {
		value, has := metricOf(row.Workload, r.Metrics, row.Metric)
		factor, known := c.factor(row, r.machine)
		switch {
		case r.Status == workload.Wrong:
			return Cell{Store: store, Status: workload.Wrong, Detail: r.Detail}
		case r.Status != workload.OK:
			if cell.Status != workload.OK {
				cell.Status, cell.Detail = r.Status, r.Detail
			}
			if cell.Status == workload.Skipped && loadFailed(r.Result) {
				cell.Status = workload.Failed
			}
		case has && known:
			cell.Status, cell.Detail = workload.OK, r.Detail
			value *= factor
			values = append(values, value)
			cell.Samples[r.Job.Repeat] = sample{value, r.Began, r.machine}
		}
	}
	if cell.Repeats = len(values); cell.Repeats > 0 {
		cell.Median = middle(values)
		cell.Min, cell.Max = slices.Min(values), slices.Max(values)
	}
	return cell
}

// factor converts the metric of a machine to the row's unit. It is not known if the row is a
// share of a limit that was not measured there.
func (c results) factor(row Row, m comparison.Machine) (f float64, known bool) {
	f = row.Factor
	if f == 0 {
		f = 1
	}
	if row.PerLimit == "" {
		return f, true
	}
	limit := c.limits[m.WithoutRevision()][row.PerLimit]
	return f / limit, limit > 0
}

func (c results) line(row Row) Line {
	l := Line{Row: row, Best: -1, Ratio: math.NaN(), Figure: math.NaN(), Ratios: interval.Unbounded(), Judged: interval.Unbounded()}
	mine := c.cell(row, ours)
	for _, store := range c.stores {
		cell := c.cell(row, store)
		l.Cells = append(l.Cells, cell)
		if !cell.ok() {
			continue
		}
		if cell.Median > 0 {
			l.Spread = max(l.Spread, (cell.Max-cell.Min)/cell.Median)
		}
		if !isOurs(store) && (l.Best < 0 || closer(row, mine, cell, l.Cells[l.Best])) {
			l.Best = len(l.Cells) - 1
		}
	}
	if mine.ok() && l.Best >= 0 {
		l.compare(mine, l.Cells[l.Best])
	}
	l.Lost = mine.failed() && l.Best >= 0
	l.Missing = c.missing(row)
	l.Few = l.Few || mine.Repeats < interval.SamplesMin
	c.judge(&l, mine)
	l.Few = l.Few && mine.ok() && c.repeats >= interval.SamplesMin
	return l
}

// compare sets the ratio to the best peer.
func (l *Line) compare(mine, other Cell) {
	p := pair(mine, other)
	l.Ours, l.Theirs, l.Apart, l.Few = middle(p.mine), middle(p.other), p.apart, p.few()
	l.Shared = len(p.mine) != len(mine.Samples) || len(p.other) != len(other.Samples)
	if l.Theirs > 0 {
		l.Ratio = p.ratio()
	}
	l.Ratios = p.interval()
}

// closer returns whether peer a does better against stoat than peer b, each in the repeats
// that it is compared in. Where that decides nothing, their own medians do.
func closer(row Row, mine, a, b Cell) bool {
	if mine.ok() {
		withA, withB := pair(mine, a).ratio(), pair(mine, b).ratio()
		if withA < withB || withA > withB { // neither is NaN
			return better(row, withB, withA)
		}
	}
	return better(row, a.Median, b.Median)
}

func better(row Row, a, b float64) bool {
	if row.Higher {
		return a > b
	}
	return a < b
}
