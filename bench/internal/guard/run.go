package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

const (
	// DefaultRounds is how many rounds measure every row.
	DefaultRounds = 8

	// DefaultRoundsMax is how many rounds measure a row that stays open.
	DefaultRoundsMax = 24
)

// A Side is one of the two that a guard compares.
type Side struct {
	Program string // the path of the program that runs the jobs
	Store   string // the store that it measures
}

// A Guard measures two sides in turns.
type Guard struct {
	Old, New Side
	Jobs     []Job

	Dir   string // for the databases
	Scale float64
	Rule  Rule

	// Rounds is the number of rounds of every job. Jobs with an open row go on
	// until RoundsMax. No round begins after Deadline.
	Rounds, RoundsMax int
	Deadline          time.Time

	Out io.Writer // for progress
}

// measured holds the costs of one figure. A figure that one program lacks stays
// empty.
type measured struct {
	job Job
	row Row
}

// errStore says that stoat failed in a job.
var errStore = errors.New("stoat failed")

// Run returns the judgements of all rows that both sides have.
func (g *Guard) Run(ctx context.Context) ([]Judgement, error) {
	var all []*measured
	for _, j := range g.Jobs {
		for _, f := range j.figures {
			all = append(all, &measured{job: j, row: Row{Name: j.workload + " " + j.data + " " + f.metric, Limit: f.limit}})
		}
	}
	wanted := g.Jobs
	for round := 0; len(wanted) > 0 && round < g.RoundsMax; round++ {
		if round > 0 && !g.Deadline.IsZero() && time.Now().After(g.Deadline) {
			fmt.Fprintln(g.Out, "the time is over")
			break
		}
		fmt.Fprintf(g.Out, "round %d: %d jobs\n", round+1, len(wanted))
		if err := g.round(ctx, round, wanted, all); err != nil {
			return nil, err
		}
		if round+1 >= g.Rounds {
			wanted = g.open(all)
		}
	}
	return g.Rule.Decide(rowsOf(all)), nil
}

// rowsOf returns the rows that have costs.
func rowsOf(all []*measured) []Row {
	var rows []Row
	for _, m := range all {
		if len(m.row.Old) > 0 {
			rows = append(rows, m.row)
		}
	}
	return rows
}

// open returns the jobs that have an open row, and the loads whose data they
// read.
func (g *Guard) open(all []*measured) []Job {
	opened := map[string]bool{}
	for _, j := range g.Rule.Decide(rowsOf(all)) {
		opened[j.Row.Name] = g.Rule.Open(j)
	}
	return choose(g.Jobs, func(j Job) bool {
		return slices.ContainsFunc(all, func(m *measured) bool {
			return opened[m.row.Name] && m.job.workload == j.workload && m.job.data == j.data
		})
	})
}

// choose returns the jobs that want accepts, and the loads whose data they read.
func choose(all []Job, want func(j Job) bool) []Job {
	needed := map[string]bool{}
	for _, j := range all {
		if !want(j) {
			continue
		}
		needed[j.workload+j.data] = true
		if w, ok := workload.Find(j.workload); ok && (!w.Fresh || w.Changes) {
			needed["populate"+j.data] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(j Job) bool { return !needed[j.workload+j.data] })
}

// round runs each job twice with both sides: old, new, new, old in one round,
// and the other way round in the next.
func (g *Guard) round(ctx context.Context, round int, wanted []Job, all []*measured) error {
	for n, j := range wanted {
		var results [2][]workload.Result
		for turn := range 4 {
			which := ((turn+1)/2 + round + n) % 2
			result, err := g.execute(ctx, which, j)
			if err != nil {
				return err
			}
			results[which] = append(results[which], result)
		}
		if err := note(j, results, all); err != nil {
			return err
		}
	}
	return nil
}

// names of the sides, by index.
var names = [2]string{"old", "new"}

// execute runs a job with the old side, 0, or the new one, 1.
func (g *Guard) execute(ctx context.Context, which int, j Job) (workload.Result, error) {
	w, ok := workload.Find(j.workload)
	if !ok {
		return workload.Result{}, fmt.Errorf("no workload %q", j.workload)
	}
	dir, err := g.prepare(w, names[which]+"-"+j.data)
	if err != nil {
		return workload.Result{}, err
	}
	side := [2]Side{g.Old, g.New}[which]
	return comparison.RunJob(ctx, side.Program, g.Dir, workload.Job{
		Store: side.Store, Workload: j.workload, Data: j.data, Repeat: 1, Scale: g.Scale, Pace: pace, Dir: dir,
	}, time.Minute)
}

// prepare returns the directory for a workload. It is empty for a load, and a new
// copy for a workload that changes the data.
func (g *Guard) prepare(w workload.Workload, name string) (string, error) {
	loaded := filepath.Join(g.Dir, name)
	dir := loaded
	switch {
	case w.Changes:
		dir += "-copy"
	case w.Fresh && !w.Keeps:
		dir += "-" + w.Name
	}
	var err error
	if w.Fresh || w.Changes {
		err = os.RemoveAll(dir)
	}
	if err == nil && w.Changes {
		err = os.CopyFS(dir, os.DirFS(loaded))
	}
	return dir, err
}

// note adds the figures that both sides have. The new side must not fail. An old
// program without the workload has nothing to compare.
func note(j Job, results [2][]workload.Result, all []*measured) error {
	for _, r := range results[1] {
		if r.Status != workload.OK {
			return fmt.Errorf("%w: %s %s: %s: %s", errStore, j.workload, j.data, r.Status, r.Detail)
		}
	}
	for _, f := range j.figures {
		before, has := f.best(results[0])
		after, still := f.best(results[1])
		if !has || !still {
			continue
		}
		for _, m := range all {
			if m.row.Name == j.workload+" "+j.data+" "+f.metric {
				m.row.Old, m.row.New = append(m.row.Old, before), append(m.row.New, after)
			}
		}
	}
	return nil
}

// best returns the lowest cost of a figure, and false if a result lacks it. What
// disturbs a machine makes a program slower, never faster, so the lower of two
// costs has far less noise than their mean.
func (f figure) best(results []workload.Result) (float64, bool) {
	lowest := math.Inf(1)
	for _, r := range results {
		v, has := r.Metrics[f.metric]
		if r.Status != workload.OK || !has {
			return 0, false
		}
		lowest = min(lowest, f.cost(v))
	}
	return lowest, len(results) > 0
}
