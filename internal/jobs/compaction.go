package jobs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/filter"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
)

// agingCheck is the time between two checks of the compactor. It checks whether values in
// tables have expired, deletions have grown old, or other programs have freed space.
const agingCheck = 30 * time.Second

// CompactStep is the step of the compactor: it does one job after the other until
// none is due.
func (j *Jobs) CompactStep() (again time.Duration, err error) {
	defer j.space.Step()()
	if j.lacking() {
		j.space.Look()
	}
	for {
		// A small merge does not check for Close. During Close, a merge cannot learn from the
		// views that it may drop what has expired. So the same merge could be due forever.
		if err := j.stopped(); err != nil {
			return 0, err
		}
		now, falls := j.Load()
		if now == work.Pausing && j.flushesFirst() {
			now = work.Busy // until the end of the flush, or of the pause
		}
		damaged := len(j.quarantine.Tables())
		due, err := j.compactOnce(now)
		if err != nil {
			j.space.Rests(space.Merges)
			j.commits.JobFailed(err)
			if len(j.quarantine.Tables()) > damaged {
				continue // with what does not need that table
			}
			j.o.Collect() // garbage does not wait for what failed
			return 0, err
		}
		if !due {
			j.space.Rests(space.Merges)
			j.o.Collect()
			in := lookInputs{falls: falls, lacking: j.lacking()}
			in.tables, in.aging = tablesAge(j.store.Version())
			return nextLook(in), nil
		}
	}
}

// compactOnce does the most urgent job under a load, and reports whether one was
// due.
func (j *Jobs) compactOnce(now work.Load) (due bool, err error) {
	err = fault.Guard(func() (err error) {
		if due, err = j.Tidy(now); !due && now == work.Idle {
			due, err = j.GatherIdle()
		}
		return err
	})
	return due, err
}

// lacking reports whether a job waits for more space.
func (j *Jobs) lacking() bool { return j.space.Lacking() || j.attempts.some.Load() }

// lookInputs is what the compactor knows when no job is due.
type lookInputs struct {
	tables  bool          // there are tables
	aging   bool          // some have expiring values or deletions
	falls   time.Duration // in how much time the load falls, 0 if it cannot
	lacking bool          // a job waits for more space
}

// nextLook returns when the compactor looks again although nothing changes; 0 is
// never. A job that is not worth its cost beside commits may be when the load falls.
// Time alone makes values expire and deletions grow old.
func nextLook(in lookInputs) (again time.Duration) {
	switch {
	case !in.tables:
	case in.falls > 0:
		again = max(in.falls, time.Millisecond)
	case in.aging:
		again = agingCheck
	}
	if again == 0 && in.lacking {
		again = agingCheck
	}
	return again
}

// tablesAge reports whether v has tables, and any with expiring values or
// deletions.
func tablesAge(v *manifest.Version) (tables, aging bool) {
	for t := range v.Tables() {
		tables = true
		if t.Expiring+t.Deletions+t.RangeDeletions > 0 {
			return true, true
		}
	}
	return tables, false
}

// Tidy does the most urgent merge under a load, and reports whether there was one.
func (j *Jobs) Tidy(now work.Load) (due bool, err error) {
	j.Compacting.Lock()
	defer j.Compacting.Unlock()
	// First the shape: a flush may take partial entries from memory, which it shows, to the
	// version. The other way round, neither might show them.
	s := j.Shape(now, j.store.Horizon())
	v := j.store.Version()
	j.attempts.denied = false
	s.Useless = func(plan *compact.Plan) bool { return j.attempts.useless(plan, &s) }
	plan, due := compact.Pick(v, s)
	switch {
	case !due || plan.ForFewerFiles() && !j.fewerFiles(&plan, now):
		if now != work.Idle {
			return false, nil
		}
		return j.attemptColumn(v, &s)
	case len(plan.Join) > 0:
		if err = j.Run(plan, j.space.Sparing(j.stopped), nil); err != nil {
			j.joinFailed.Store(uint64(j.flushedSeq()))
		}
		return true, err
	}
	return true, j.attempt(&plan, &s)
}

// fewerFiles reports whether the compactor may run a plan that only makes fewer
// files. A disk that is low has no room for copies. If a gathering is due, it makes
// large files anyway, and in order. Joining is picked last, so no other job waits for it.
func (j *Jobs) fewerFiles(plan *compact.Plan, now work.Load) bool {
	switch {
	case j.space.Scarce():
		return false
	case len(plan.Join) == 0:
		return true
	}
	return !(now == work.Idle && j.GatheringDue()) && j.joinFailed.Load() != uint64(j.flushedSeq())
}

// Run carries out a plan, unless stop returns an error. tell, if it is set, is
// told now and then how many more bytes of values were moved. The caller holds
// Compacting.
func (j *Jobs) Run(plan compact.Plan, stop func() error, tell func(moved int64)) error {
	started := time.Now()
	j.o.Executor.At(work.PointPicked)
	if err := j.store.EditErr(); err != nil {
		return err // what the plan would write could be neither used nor removed
	}
	out := output{values: place.NewWriter(j.o.Place)}
	var err error
	if !plan.Drop && !plan.Move {
		out, err = j.runMerge(&plan, stop, tell)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", plan.String(), err)
	}
	if !plan.Move && mutant.On(mutant.EarlyDiscard) {
		j.discardInputs(&plan)
	}
	if err := j.store.Install(editOf(&plan, out), nil); err != nil {
		j.removeOutput(out.result)
		out.values.Abandon()
		return fmt.Errorf("%s: %w", plan.String(), err)
	}
	j.inherit(&plan, out.result.Tables)
	j.o.Collect() // what the tables do not refer to any more is garbage
	j.compacted(&plan, out, time.Since(started))
	if !plan.Move && !mutant.On(mutant.EarlyDiscard) {
		j.discardInputs(&plan)
	}
	return nil
}

// An output is what a merge has written.
type output struct {
	result compact.Result
	values *place.Writer
}

// editOf returns the edit that makes a plan live.
func editOf(plan *compact.Plan, out output) manifest.Edit {
	edit := manifest.Edit{DropTables: plan.Drops()}
	switch {
	case plan.Drop:
	case plan.Move:
		edit.AddTables = plan.Moved()
	default:
		edit.AddTables, edit.AddValues = out.result.Tables, out.values.Made()
	}
	return edit
}

// inherit counts for the tables that a plan has made what iterators have read of its inputs.
// A table whose values a gathering has brought into order begins anew.
func (j *Jobs) inherit(plan *compact.Plan, tables []*manifest.Table) {
	if plan.Gather > 0 {
		tables = slices.DeleteFunc(slices.Clone(tables), func(t *manifest.Table) bool { return t.Jumps < t.Pointers/2 })
	}
	j.store.Files().Inherit(tables, plan.Inputs[:])
}

// compacted counts and reports a compaction.
func (j *Jobs) compacted(plan *compact.Plan, out output, took time.Duration) {
	tables, values := out.result.BytesWritten, out.values.Bytes()
	j.Counts.Compactions.Add(1)
	j.Counts.CompactedBytes.Add(tables)
	if plan.Gather > 0 {
		j.Counts.GatheredBytes.Add(values)
	} else {
		j.Counts.CompactedBytes.Add(values)
	}
	j.Counts.CompactTime.Add(took)
	j.o.Report(event.CompactionDone{Plan: plan.String(), Level: plan.OutputLevel, InputBytes: plan.InputBytes(),
		OutputBytes: tables + values, Took: took})
}

// discardInputs discards the tables that a plan has replaced.
func (j *Jobs) discardInputs(plan *compact.Plan) {
	var gone []state.Obsolete
	for _, t := range plan.Tables() {
		gone = append(gone, state.ObsoleteTable(t))
	}
	j.store.Discard(gone)
}

// runMerge writes what takes the place of the inputs of a plan. Nothing is left of it after
// an error, a fault in the mapping of an input, or a panic of a function of the user.
func (j *Jobs) runMerge(plan *compact.Plan, stop func() error, tell func(moved int64)) (out output, err error) {
	m := mover{jobs: j, out: place.NewWriter(j.o.Place), tell: tell}
	out.values = m.out
	var made []base.FileNum // a panic brings no result
	newFile := func() (compact.NewFile, error) {
		file, err := j.newTableFile()
		if err == nil {
			made = append(made, file.Num)
		}
		return file, err
	}
	done := false
	defer func() {
		if !done {
			j.store.DeleteTables(made)
			out.values.Abandon()
		}
	}()
	err = fault.Guard(func() (err error) {
		out.result, err = j.merge(plan, newFile, &m, stop)
		return err
	})
	if err != nil {
		j.quarantine.NoteTables(plan.Drops(), err)
	}
	done = err == nil
	return out, err
}

// merge writes the tables that take the place of the inputs of a plan to new files. It also
// writes the values that the plan moves, where m says. It reads the tables through readers
// of its own, by large reads: what users have in memory stays there.
func (j *Jobs) merge(plan *compact.Plan, newFile func() (compact.NewFile, error), m *mover, stop func() error) (result compact.Result, err error) {
	files := tree.New(j.o.Unmapped)
	defer func() { err = errors.Join(err, files.Close()) }()
	view := files.View(&manifest.Version{Levels: plan.Inputs}, nil)
	job := j.newJob()
	if job.Deletions, err = view.Deletions(); err != nil {
		return result, err
	}
	if job.Deletions != nil {
		rest := compact.WithoutHidden(plan.Inputs, job.Deletions, job.Rules.Snapshots[0])
		view = files.View(&manifest.Version{Levels: rest}, nil)
	}
	levels := make([]tree.Iter, view.Depth())
	job.Sources = make([]iter.Source, len(levels))
	for i := range levels {
		levels[i].Init(view, i, table.IterOptions{Unmapped: true})
		job.Sources[i] = &levels[i]
	}
	plan.Apply(&job, j.Shape(work.Busy, job.Rules.NowMs))
	job.Discard = j.discards(plan, job.Rules.Snapshots[0])
	cuts := plan.Cuts && !mutant.On(mutant.CutOwnFilter)
	if job.Level == 0 && !cuts {
		job.Filter = filter.NewBuilder(plan.InputEntries())
	}
	job.Codec = j.codecs(job.Level)
	job.Place, job.PlaceNew, job.Stop, job.NewFile = place.PointerRef, m.out.Place, stop, newFile
	job.Rules.Above = j.partialAbove(plan)
	if j.o.Screen != nil {
		job.Screen = j.screen
	}
	if plan.Moves() {
		if err := m.begin(plan, stop); err != nil {
			return result, err
		}
		defer func() { err = errors.Join(err, m.end()) }()
		job.Place, job.Cut = m.place, m.cut
	}
	if result, err = compact.Run(job); err == nil {
		err = m.out.Finish()
	}
	if cuts {
		for _, t := range result.Tables {
			t.Filter = plan.Inputs[0][0].Filter
		}
	}
	return result, err
}
