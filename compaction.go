package stoat

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/vfs"
)

// install makes the tables of a finished job live: their names become durable,
// one edit of the manifest says so, and a new view shows it. change makes what
// else differs in the view; it may be nil.
func (d *DB) install(edit manifest.Edit, change func(v view) view) error {
	d.installing.Lock()
	defer d.installing.Unlock()
	if len(edit.AddTables)+len(edit.AddValues) > 0 && !mutant.On(mutant.NoTableDirSync) {
		if err := d.fs.SyncDir(d.dir); err != nil {
			return err
		}
	}
	edit.NextFile = manifest.Some(d.nextFile.Load())
	if err := d.manifest.Append(edit); err != nil {
		return err
	}
	version := d.manifest.State().Version
	d.change(func(v view) view {
		if change != nil {
			v = change(v)
		}
		v.tree = d.tables.View(version, v.tree)
		return v
	})
	d.admission.setDebt(version, compact.Debt(version, d.shape(false)))
	d.emitFiles(&edit)
	return nil
}

// garbageOf returns how much of the values of v nothing refers to, and how much
// there is in all.
func garbageOf(v *manifest.Version) (garbage, all uint64) {
	for _, f := range v.Values {
		garbage += f.Bytes - min(f.Live, f.Bytes)
		all += f.Bytes
	}
	return garbage, all
}

// newJob returns a job that merges sources by the rules of this moment.
func (d *DB) newJob(sources []iter.Source) compact.Job {
	return compact.Job{
		Sources: sources,
		Rules: compact.Rules{
			Snapshots: d.readers.Snapshots(&d.visible),
			Versions:  d.opts.NumVersions,
			NowMs:     d.expiredBefore(),
			Bottom:    mutant.On(mutant.DropDeletions), // a plan says it for itself
		},
		Writer:  table.WriterOptions{HashSeed: d.hashSeed},
		NewFile: d.newTableFile,
	}
}

// tableSize is about how large tables become.
const tableSize = 32 << 20

// newTableFile makes the file of a new table.
func (d *DB) newTableFile() (compact.NewFile, error) {
	n := base.FileNum(d.nextFile.Add(1) - 1)
	f, err := d.fs.Create(d.fs.Join(d.dir, base.TableName(n)), vfs.CatTable)
	return compact.NewFile{Num: n, File: f, Salt: rand.Uint64()}, err
}

// stopped returns an error when Close wants background work to end.
func (d *DB) stopped() error {
	if d.background.stopped.Err() != nil {
		return errStopped
	}
	return nil
}

// removeOutput deletes what a job has written that came to nothing.
func (d *DB) removeOutput(r compact.Result) {
	for _, n := range r.Files {
		d.removeFile(base.TableName(n))
	}
}

// backgroundFailed reports an error of background work. One of the manifest
// ends all writing: what is on the disk is not known any more.
func (d *DB) backgroundFailed(err error) {
	if errors.Is(err, errStopped) {
		return
	}
	if e := d.manifest.Err(); e != nil {
		d.commits.fail(e)
		d.admission.interrupt()
	}
	d.emit(BackgroundError{Err: err})
}

// shape tells the picks what the database is like.
func (d *DB) shape(idle bool) compact.Shape {
	return compact.Shape{
		BaseSizeMin:    8 * d.opts.MemtableSize,
		ValuesMin:      2 * d.opts.MemtableSize,
		TableSize:      min(tableSize, d.opts.MemtableSize),
		Idle:           idle,
		NowMs:          d.expiredBefore(),
		OldestSnapshot: d.readers.Oldest(&d.visible),
	}
}

// compactStep does what is due, one job after the other: garbage that has grown
// beyond all bounds, what keeps the tree in shape, garbage.
func (d *DB) compactStep() (again time.Duration, err error) {
	for {
		idle := d.background.quiet.left() == 0
		var due bool
		if err := guard(func() (err error) { due, err = d.tidy(idle); return err }); err != nil {
			d.backgroundFailed(err)
			return 0, err
		}
		if !due {
			return d.nextCompaction(d.manifest.State().Version, idle), nil
		}
	}
}

// tidy does the most urgent job, and reports whether there was one.
func (d *DB) tidy(idle bool) (due bool, err error) {
	d.compacting.Lock()
	defer d.compacting.Unlock()
	if choices := d.pickCollection(values.Strained); len(choices) > 0 {
		return true, d.collect(choices, d.stopped)
	}
	if plan, due := compact.Pick(d.manifest.State().Version, d.shape(idle)); due {
		return true, d.compact(plan, d.stopped)
	}
	if choices := d.pickCollection(d.pressure(idle)); len(choices) > 0 {
		return true, d.collect(choices, d.stopped)
	}
	return false, nil
}

// expiryCheck is how often tables are looked at for values that expired.
const expiryCheck = 30 * time.Second

// nextCompaction returns when to look again although nothing has changed: what
// is not worth doing while others work may be when they stop, and time alone
// makes values expire.
func (d *DB) nextCompaction(v *manifest.Version, idle bool) time.Duration {
	if v.Tables() == 0 {
		return 0
	}
	if !idle {
		return max(d.background.quiet.left(), time.Millisecond)
	}
	for _, level := range v.Levels {
		for _, t := range level {
			if t.Expiring > 0 {
				return expiryCheck
			}
		}
	}
	return 0
}

// compact carries out a plan, unless stop returns an error. The caller holds
// compacting.
func (d *DB) compact(plan compact.Plan, stop func() error) error {
	started := time.Now()
	edit := manifest.Edit{DropTables: plan.Drops()}
	var result compact.Result
	switch {
	case plan.Drop:
	case plan.Move:
		edit.AddTables = plan.Moved()
	default:
		var err error
		if result, err = d.merge(&plan, stop); err != nil {
			d.removeOutput(result)
			return fmt.Errorf("%s: %w", plan.String(), err)
		}
		edit.AddTables = result.Tables
	}
	if err := d.install(edit, nil); err != nil {
		d.removeOutput(result)
		return fmt.Errorf("%s: %w", plan.String(), err)
	}
	d.work.compacted(result, time.Since(started))
	d.emit(CompactionDone{Plan: plan.String(), Level: plan.OutputLevel, InputBytes: plan.InputBytes(),
		OutputBytes: result.BytesWritten, Took: time.Since(started)})
	if !plan.Move {
		gone := make([]base.FileNum, 0, len(edit.DropTables))
		for _, place := range edit.DropTables {
			gone = append(gone, place.Num)
		}
		d.discard(discarded{tables: gone, bytes: plan.InputBytes()})
	}
	return nil
}

// merge writes the tables that take the place of a plan's inputs. It reads
// those through readers of its own, by large reads: what users have in memory
// stays there.
func (d *DB) merge(plan *compact.Plan, stop func() error) (result compact.Result, err error) {
	files := tree.New(d.treeOptions())
	defer func() { err = errors.Join(err, files.Close()) }()
	view := files.View(&manifest.Version{Levels: plan.Inputs}, nil)
	job := d.newJob(nil)
	if job.Deletions, err = view.Deletions(); err != nil {
		return result, err
	}
	if job.Deletions != nil {
		view = files.View(&manifest.Version{Levels: withoutHidden(plan.Inputs, job.Deletions, job.Rules.Snapshots[0])}, nil)
	}
	levels := make([]tree.Iter, view.Depth())
	job.Sources = make([]iter.Source, len(levels))
	for i := range levels {
		levels[i].Init(view, i, table.IterOptions{Unmapped: true})
		job.Sources[i] = &levels[i]
	}
	plan.Apply(&job, d.shape(false))
	job.Place = pointerRef
	job.Stop = stop
	return compact.Run(job)
}
