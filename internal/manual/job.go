package manual

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/jobs"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/quarantine"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// An Engine is the parts of a database that manual jobs use.
type Engine struct {
	Store      *state.Store
	Commits    *commit.Committer
	Jobs       *jobs.Jobs
	Collector  *collect.Collector
	Space      *space.Reserve
	Quarantine *quarantine.Quarantine
	Group      *work.Group
}

// Options say what a manual job does.
type Options struct {
	// Lower and Upper bound the keys: Lower inclusive, Upper exclusive. nil is no
	// bound.
	Lower, Upper []byte
	// Progress, if it is set, is called before each step, and now and then in a long one.
	// done is how many bytes the job has gone through, and total is an estimate.
	Progress func(done, total int64)
}

// A job is a manual job under way.
type job struct {
	*Engine
	o       Options
	context context.Context // of the operation

	done int64 // bytes gone through
	left int64 // an estimate of what is left, as of the last report
	// Files from next on were made by this job or beside it. The job does not rewrite
	// them again, and leaves versions after upTo to the compactor. So it ends while
	// commits arrive.
	upTo base.SeqNum
	next base.FileNum
	// first is next as the job began. What it takes to the last level stays there.
	first base.FileNum
	// screened is compact.Range.Screened.
	screened func(t *manifest.Table) bool

	live collect.LiveSet // what is known since collecting began
	// gathered is how many bytes of values were brought into the order of their keys,
	// gatherMax how many there were when that began.
	gathered, gatherMax int64
}

// Compact takes a range to the last level and frees what is deleted in it. Without
// bounds it also brings values into the order of their keys and collects garbage. Filters
// are asked about all values of the range.
func (e *Engine) Compact(ctx context.Context, o Options) error {
	return e.run(ctx, "compact", o, func(j *job) error {
		j.screened = e.Jobs.Screened()
		if err := j.compact(); err != nil {
			return err
		}
		return e.Quarantine.ValuesKept(e.Store.Version(), o.Lower, o.Upper)
	})
}

// Collect frees the garbage of all value files.
func (e *Engine) Collect(ctx context.Context) error {
	return e.run(ctx, "collect", Options{}, func(j *job) error {
		if err := j.collectAll(); err != nil {
			return err
		}
		return e.Quarantine.GarbageKept(e.Store.Version())
	})
}

// Free frees what the keys of a range take that a commit has deleted. When there
// is no room to merge all of them, it collects what the others have left, and
// tries again.
func (e *Engine) Free(ctx context.Context, lower, upper []byte) error {
	o, before := Options{Lower: lower, Upper: upper}, []*manifest.Version{e.Store.Version()}
	err := e.freeOnce(ctx, o, before)
	if errors.Is(err, vfs.ErrNoSpace) {
		err = e.freeOnce(ctx, o, before)
	}
	return err
}

func (e *Engine) freeOnce(ctx context.Context, o Options, before []*manifest.Version) error {
	err := e.run(ctx, "drop", o, func(j *job) error {
		before = append(before, e.Store.Version()) // memtables without the tombstone were flushed
		return j.sinkAll()
	})
	full := err != nil
	if full && !errors.Is(err, vfs.ErrNoSpace) {
		return err
	}
	return errors.Join(err, e.operate(ctx, "drop", Options{}, func(j *job) error { return j.collectDue(before, full) }))
}

// run flushes what was committed and then runs a job.
func (e *Engine) run(ctx context.Context, name string, o Options, run func(*job) error) error {
	return e.operate(ctx, name, o, func(j *job) error {
		if err := e.Commits.FlushAll(j.context); err != nil {
			return err
		}
		return run(j)
	})
}

// operate runs a job as an operation, and deletes what is obsolete after it.
func (e *Engine) operate(ctx context.Context, name string, o Options, run func(*job) error) error {
	ctx, end, err := e.Group.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	e.Space.Look() // since the last look, a user may have made room
	j := &job{Engine: e, o: o, context: ctx, upTo: e.Store.Visible()}
	if err = fault.Guard(func() error { return run(j) }); err == nil {
		err = j.sweep()
	}
	if err != nil {
		if e.Store.EditErr() != nil {
			e.Commits.JobFailed(err)
			err = base.Failed(err)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// stop returns why the job must end, or nil.
func (j *job) stop() error { return work.Interrupted(j.context) }

// inRange reports whether only a part of the keys is meant.
func (j *job) inRange() bool { return j.o.Lower != nil || j.o.Upper != nil }

// sinkAll takes the range to the last level.
func (j *job) sinkAll() error { return j.mergeAll(j.sink) }

func (j *job) compact() error {
	if err := j.sinkAll(); err != nil {
		return err
	}
	err := j.mergeAll(j.join)
	if j.inRange() || err != nil && !errors.Is(err, vfs.ErrNoSpace) {
		return err
	}
	// Files that there is no room to join keep no garbage.
	return errors.Join(err, j.gatherAll())
}

// mergeAll repeats a step that merges. When there is no room for that, what
// collection frees may be enough.
func (j *job) mergeAll(step func() (bool, error)) error {
	if err := j.boundMerges(); err != nil {
		return err
	}
	err := j.mergeEach(step)
	if !errors.Is(err, vfs.ErrNoSpace) || j.inRange() {
		return err
	}
	if e := j.collectAll(); e != nil {
		return errors.Join(err, e)
	}
	if e := j.sweep(); e != nil {
		return errors.Join(err, e)
	}
	if e := j.boundMerges(); e != nil {
		return errors.Join(err, e)
	}
	return j.mergeEach(step)
}

// boundMerges sets next for merges. It waits for a merge under way: that one began before
// this job, and may keep what this job must free.
func (j *job) boundMerges() error {
	_, err := j.locked(j.Jobs.Compacting, func() (bool, error) {
		j.next = j.Store.NextFile()
		if j.first == 0 {
			j.first = j.next
		}
		return false, nil
	})
	return err
}

// gatherAll gathers and collects in turns: each makes room for the other. It ends
// with a round that finds nothing to gather, but not with the first, for which there
// may have been no room.
func (j *job) gatherAll() error {
	for _, f := range j.Store.Version().Values {
		j.gatherMax += int64(f.Bytes)
	}
	for first := true; ; first = false {
		gathered := j.gathered
		j.next = j.Store.NextFile()
		if err := j.mergeEach(j.gather); err != nil {
			return err
		}
		if err := j.collectAll(); err != nil {
			return err
		}
		if j.gathered == gathered && !first {
			return nil
		}
		if err := j.sweep(); err != nil { // what waits to be deleted takes room as well
			return err
		}
	}
}

// collectAll frees the garbage of all files that exist now.
func (j *job) collectAll() error {
	j.next, j.live = j.Store.NextFile(), collect.LiveSet{}
	return j.collectEach(j.collect)
}

// A fair is a lock that a waiter may give up.
type fair interface {
	LockUntil(end <-chan struct{}) bool
	Unlock()
}

func (j *job) mergeEach(step func() (bool, error)) error { return j.each(j.Jobs.Compacting, step) }

func (j *job) collectEach(step func() (bool, error)) error {
	return j.each(j.Collector.Collecting, step)
}

// each repeats step under a lock, in turn with others, until it finds nothing to
// do.
func (j *job) each(l fair, step func() (bool, error)) error {
	for {
		j.report()
		if err := j.stop(); err != nil {
			return err
		}
		did, err := j.locked(l, step)
		if !did || err != nil {
			return err
		}
	}
}

// locked does step under a lock, unless the job must end before that is free.
func (j *job) locked(l fair, step func() (bool, error)) (bool, error) {
	if !l.LockUntil(j.context.Done()) {
		return false, j.stop()
	}
	defer l.Unlock()
	return step()
}

// sweep deletes what is obsolete by now, except what open transactions still see. A
// background job keeps all files that were there when it began, so sweep waits for
// those under way.
func (j *job) sweep() error {
	j.Store.Sweep()
	if j.Store.ObsoleteEmpty() {
		return nil
	}
	nothing := func() (bool, error) { return false, nil }
	for _, l := range []fair{j.Jobs.Compacting, j.Collector.Collecting} {
		if _, err := j.locked(l, nothing); err != nil {
			return err
		}
	}
	j.Store.Sweep()
	return nil
}

// keys is what is taken to the last level.
func (j *job) keys() compact.Range {
	return compact.Range{Lo: j.o.Lower, Hi: j.o.Upper, UpTo: j.upTo, Next: j.first, Screened: j.screened}
}

func (j *job) shape() compact.Shape { return j.Jobs.Shape(work.Busy, j.Store.Horizon()) }

// sink does the next step of taking the range to the last level.
func (j *job) sink() (bool, error) {
	s := j.shape() // before the version, see Jobs.Tidy
	plan, due := compact.PickRange(j.Store.Version(), s, j.keys())
	return j.merge(plan, due)
}

// join writes the values of small files to larger ones.
func (j *job) join() (bool, error) {
	s := j.shape()
	plan, due := compact.PickJoining(j.Store.Version(), s,
		compact.Joining{Lo: j.o.Lower, Hi: j.o.Upper, Next: j.next})
	return j.merge(plan, due)
}

func (j *job) merge(plan compact.Plan, due bool) (bool, error) {
	if !due {
		return false, nil
	}
	j.done += plan.InputBytes()
	return true, j.Jobs.Run(plan, j.stop, nil)
}

// gather brings values into the order of their keys, as many as there is room for
// beside the garbage.
func (j *job) gather() (bool, error) {
	plan, due := j.Jobs.PickGathering(true)
	if !due || j.gathered >= j.gatherMax {
		return false, nil
	}
	before := j.Jobs.Counts.GatheredBytes.Load()
	err := j.Jobs.Run(plan, j.stop, j.reportWithin())
	moved := j.Jobs.Counts.GatheredBytes.Load() - before
	j.gathered += moved
	j.done += plan.InputBytes() + moved
	return true, err
}

// collect frees the garbage of some value files.
func (j *job) collect() (bool, error) {
	s := j.Store.State()
	var b collect.Batch
	var large error
	for _, f := range s.Version.Values {
		if f.Live >= f.Bytes || !j.collects(f, s.FlushedSeq) || mutant.On(mutant.CollectNothing) {
			continue
		}
		if !j.Space.Fits(f.Live) {
			large = fmt.Errorf("there is no room for a copy of %s, %d bytes: %w", base.ValueName(f.File), f.Live, vfs.ErrNoSpace)
			continue // others make some
		}
		if b.Full(j.Collector.LiveMax()) {
			break
		}
		if b.Add(values.Choice{Num: f.Num, Drop: f.Live == 0, Copy: f.Live, Free: f.Bytes - f.Live}, f) {
			j.done += int64(f.Live)
		}
	}
	if b.Empty() {
		return false, large
	}
	return true, j.Collector.Run(b, &j.live, j.stop)
}

// collects reports whether the garbage of f is for the job to free. Everything up to flushed
// is in tables.
func (j *job) collects(f manifest.LiveValues, flushed base.SeqNum) bool {
	return f.File < j.next && !j.Commits.Held.Holds(f.ValueFile, flushed) &&
		(f.Live == 0 || !j.Quarantine.HasValues(f.ValueFile))
}

// collectDue frees the garbage of the value files that a drop has changed, as far as an
// idle database does. before has versions from before its merges. While space is scarce, or if
// the drop has found the disk full, it frees the garbage of all files. Files that are made
// from now on are left to the collector, so that it ends while commits overwrite.
func (j *job) collectDue(before []*manifest.Version, full bool) error {
	j.next = j.Store.NextFile()
	among := func(f manifest.LiveValues) bool {
		return full || j.Space.Scarce() || f.Live == 0 ||
			slices.ContainsFunc(before, func(v *manifest.Version) bool { return emptied(f, v) })
	}
	return j.collectEach(func() (bool, error) {
		if all := j.Collector.Pick(values.Idle); all.Empty() {
			return false, nil // all files together have too little
		}
		v := j.Store.Version()
		b := j.Collector.PickAmong(values.Idle, among)
		b.Keep(func(choice values.Choice) bool {
			f, ok := v.Value(choice.Num)
			return ok && f.File < j.next
		})
		if b.Empty() {
			return false, nil
		}
		return true, j.Collector.Run(b, &j.live, j.stop)
	})
}

// emptiedPart is a divisor: a drop collects a file if it has made 1/emptiedPart of the
// garbage of the file. Otherwise it would copy many live values for each that it has
// dropped, beside writers whose garbage is not due yet.
const emptiedPart = 4

// emptied reports whether much of the garbage of f was live in a version before. If no
// table referred to f then, a flush has brought the values of a large commit to tables since.
// A file made since is not emptied: commits beside the drop may have made its garbage.
func emptied(f manifest.LiveValues, before *manifest.Version) bool {
	old, known := before.Value(f.Num)
	was := old.Live
	if was == 0 {
		was = f.Bytes
	}
	return known && was > f.Live && emptiedPart*(was-f.Live) >= f.Bytes-min(f.Live, f.Bytes)
}
