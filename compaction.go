package stoat

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/filter"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/vfs"
)

// install makes the tables of a finished job live: their names become durable,
// one edit of the manifest says so, and a new view shows it. change makes what
// else differs in the view; it may be nil.
func (d *DB) install(edit manifest.Edit, change func(v view) view) error {
	d.at(pointInstall)
	d.load(&edit) // it takes long: others may install meanwhile
	d.installing.Lock()
	defer d.installing.Unlock()
	if len(edit.AddTables)+len(edit.AddValues) > 0 {
		if err := d.syncNames(); err != nil {
			return err
		}
	}
	return d.installNamed(edit, change)
}

// syncNames makes the names of all files durable that are there.
func (d *DB) syncNames() error {
	if mutant.On(mutant.NoTableDirSync) {
		return nil
	}
	return d.fs.SyncDir(d.dir)
}

// installNamed is the rest of install, for files whose names are durable. The caller
// holds installing.
func (d *DB) installNamed(edit manifest.Edit, change func(v view) view) error {
	edit.NextFile = manifest.Some(d.nextFile.Load())
	if err := d.record(edit); err != nil {
		return err
	}
	for _, n := range edit.DropValues {
		d.apart.forget(n)
	}
	d.at(pointEdited)
	state := d.manifest.State()
	version := state.Version
	d.change(func(v view) view {
		if change != nil {
			v = change(v)
		}
		v.tree = d.tables.View(version, v.tree)
		return v
	})
	d.admission.setDebt(&state, compact.Debt(version, d.shape(busy)))
	d.emitFiles(&edit)
	d.room.edited()
	return nil
}

// load brings the tables that edit is to add into memory before anybody reads
// them, as far as the budget has room for them. When the database is being
// closed there will be no reads.
func (d *DB) load(edit *manifest.Edit) {
	if len(edit.AddTables) == 0 || d.closed.Load() {
		return
	}
	_ = fault.Guard(func() error { // whoever reads a page that is lost is told
		d.tables.Load(edit.AddTables, edit.DropTables, d.pagesBudget(d.readersBytes()), d.closed.Load)
		return nil
	})
}

// newJob returns a job that merges sources by the rules of this moment.
func (d *DB) newJob(sources []iter.Source) compact.Job {
	snapshots := d.readers.Snapshots(&d.visible)
	if mutant.On(mutant.ForgetSnapshots) {
		snapshots = snapshots[len(snapshots)-1:]
	}
	return compact.Job{
		Sources: sources,
		Rules: compact.Rules{
			Snapshots: snapshots,
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

// tableSize is about how large the tables of this database become.
func (d *DB) tableSize() int64 { return min(tableSize, d.opts.MemtableSize) }

// newTableFile makes the file of a new table.
func (d *DB) newTableFile() (compact.NewFile, error) {
	d.at(pointCreate)
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
	if err := d.tables.Drop(r.Files); err != nil { // install may have loaded them
		d.emit(Warning{What: "a table could not be closed", Err: err})
	}
	for _, n := range r.Files {
		d.removeFile(base.TableName(n))
	}
}

// backgroundFailed reports an error of background work; that the database is
// being closed is none. One of the manifest ends all writing: what is on the disk
// is not known any more.
func (d *DB) backgroundFailed(err error) {
	if errors.Is(err, errStopped) || errors.Is(err, ErrClosed) {
		return
	}
	if e := d.manifest.Err(); e != nil {
		d.commits.fail(e)
	}
	d.emit(BackgroundError{Err: err})
	d.room.refusedBy(err)
}

// pausingRuns is how many runs of level 0 may hold one key while nobody
// commits. It is not so few that a writer who pauses again and again has small
// runs merged each time.
const pausingRuns = 4

// shape tells the picks what the database is like.
func (d *DB) shape(now calm) compact.Shape {
	s := compact.Shape{
		BaseSizeMin:    8 * d.opts.MemtableSize,
		ValuesMin:      2 * d.opts.MemtableSize,
		Replacing:      d.admission.gauge.replacing(),
		TableSize:      d.tableSize(),
		Idle:           now == idling,
		NowMs:          d.expiredBefore(),
		Damaged:        d.damaged.all(),
		BadValues:      d.bad.all(),
		Versions:       d.opts.NumVersions,
		OldestSnapshot: d.readers.Oldest(&d.visible),
	}
	d.room.bound(&s)
	if now != busy {
		s.RunsMax = pausingRuns
	}
	return s
}

// calm tells how calm it is. Where room is scarce everything is worth doing that
// would be in an idle database.
func (d *DB) calm() (now calm, calmer time.Duration) {
	if d.room.scarce() {
		return idling, 0
	}
	return d.background.quiet.calm()
}

// compactStep does what keeps the tree in shape, one job after the other, and
// leaves garbage to the collector.
func (d *DB) compactStep() (again time.Duration, err error) {
	if d.room.lacking() {
		d.room.look()
	}
	for {
		now, calmer := d.calm()
		if now == pausing && d.flushesFirst() {
			now = busy // until the end of the flush, or of the pause
		}
		damaged := len(d.damaged.all())
		var due bool
		if err := fault.Guard(func() (err error) {
			if due, err = d.tidy(now); !due && now == idling {
				due, err = d.gatherIdle()
			}
			return err
		}); err != nil {
			d.room.rests(mergeRests)
			d.backgroundFailed(err)
			if len(d.damaged.all()) > damaged {
				continue // with what does not need that table
			}
			d.wakeCollector() // what is garbage does not wait for what failed
			return 0, err
		}
		if !due {
			d.room.rests(mergeRests)
			d.wakeCollector()
			again = nextCompaction(d.manifest.State().Version, calmer)
			if again == 0 && d.room.lacking() {
				again = agingCheck
			}
			if pause := d.measuring.pause(); pause > 0 && (again == 0 || pause < again) {
				again = pause
			}
			return again, nil
		}
	}
}

// fewerFiles reports whether a plan that makes nothing but fewer files may be
// carried out without anybody asking: on a disk that is low there is no room for
// copies. Values that are to be gathered come to large files by that, and in order.
// Joining is the last that is picked, so that nothing waits behind it.
func (d *DB) fewerFiles(plan *compact.Plan, now calm) bool {
	switch {
	case d.room.scarce():
		return false
	case len(plan.Join) == 0:
		return true
	}
	return !(now == idling && d.gatheringDue()) && d.inVain.joining.Load() != uint64(d.manifest.State().FlushedSeq)
}

// tidy does the most urgent job, and reports whether there was one.
func (d *DB) tidy(now calm) (due bool, err error) {
	d.compacting.Lock()
	defer d.compacting.Unlock()
	v, s := d.manifest.State().Version, d.shape(now)
	d.measuring.forget(v)
	s.Useless = func(plan *compact.Plan) bool { return d.measuring.useless(plan, &s) }
	plan, due := compact.Pick(v, s)
	switch {
	case !due || plan.ForFewerFiles() && !d.fewerFiles(&plan, now):
		if now != idling {
			return false, nil
		}
		return d.tidyColumn(v, &s)
	case len(plan.Join) > 0:
		if err = d.compact(plan, d.room.sparing(d.stopped)); err != nil {
			d.inVain.joining.Store(uint64(d.manifest.State().FlushedSeq))
		}
		return true, err
	}
	return true, d.mergeWhereItFits(&plan, &s, func(int64) bool { return true })
}

// agingCheck is how often tables are looked at for values that expired and for
// deletions that have waited long enough, and the disk for room that others have
// made.
const agingCheck = 30 * time.Second

// nextCompaction returns when to look again although nothing has changed: what
// is not worth doing while others work may be when it is calmer, and time alone
// makes values expire and deletions grow old.
func nextCompaction(v *manifest.Version, calmer time.Duration) time.Duration {
	if v.Tables() == 0 {
		return 0
	}
	if calmer > 0 {
		return max(calmer, time.Millisecond)
	}
	for _, level := range v.Levels {
		for _, t := range level {
			if t.Expiring+t.Deletions+t.RangeDeletions > 0 {
				return agingCheck
			}
		}
	}
	return 0
}

// compact carries out a plan, unless stop returns an error. The caller holds
// compacting.
func (d *DB) compact(plan compact.Plan, stop func() error) error {
	return d.compactTelling(plan, stop, nil)
}

// compactTelling is compact for who is to be told how much of values has been moved.
func (d *DB) compactTelling(plan compact.Plan, stop func() error, tell func(moved int64)) error {
	started := time.Now()
	d.at(pointPicked)
	edit := manifest.Edit{DropTables: plan.Drops()}
	var result compact.Result
	moved := moving{placement: placement{db: d}, tell: tell}
	switch {
	case plan.Drop:
	case plan.Move:
		edit.AddTables = plan.Moved()
	default:
		// A fault in the mapping of an input must not keep what was begun.
		err := fault.Guard(func() (err error) { result, err = d.merge(&plan, d.newTableFile, &moved, stop); return err })
		if err != nil {
			d.damaged.note(&plan, err)
			d.removeOutput(result)
			moved.abandon()
			return fmt.Errorf("%s: %w", plan.String(), err)
		}
		edit.AddTables, edit.AddValues = result.Tables, moved.made
	}
	if !plan.Move && mutant.On(mutant.EarlyDiscard) {
		d.discardInputs(&plan)
	}
	if err := d.install(edit, nil); err != nil {
		d.removeOutput(result)
		moved.abandon()
		return fmt.Errorf("%s: %w", plan.String(), err)
	}
	d.wakeCollector() // what the tables refer to no more is garbage
	took := time.Since(started)
	d.work.compacted(&plan, result.BytesWritten, moved.bytes(), took)
	d.emit(CompactionDone{Plan: plan.String(), Level: plan.OutputLevel, InputBytes: plan.InputBytes(),
		OutputBytes: result.BytesWritten + moved.bytes(), Took: took})
	if !plan.Move && !mutant.On(mutant.EarlyDiscard) {
		d.discardInputs(&plan)
	}
	return nil
}

// discardInputs discards the tables that a plan has replaced.
func (d *DB) discardInputs(plan *compact.Plan) {
	var gone []relic
	for _, tables := range plan.Inputs {
		for _, t := range tables {
			gone = append(gone, relicOfTable(t))
		}
	}
	d.discard(gone)
}

// merge writes the tables that take the place of a plan's inputs to new files, and
// the values that the plan moves, where moved says. It reads the tables through
// readers of its own, by large reads: what users have in memory stays there.
func (d *DB) merge(plan *compact.Plan, newFile func() (compact.NewFile, error), moved *moving, stop func() error) (result compact.Result, err error) {
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
	plan.Apply(&job, d.shape(busy))
	if job.Level == 0 {
		job.Filter = filter.NewBuilder(plan.InputEntries())
	}
	job.Writer.Compression = d.opts.Compression.ofTables(job.Level)
	job.Place, job.Stop, job.NewFile = pointerRef, stop, newFile
	if plan.Moves() {
		if err := moved.begin(plan, stop); err != nil {
			return result, err
		}
		defer func() { err = errors.Join(err, moved.end()) }()
		job.Place, job.Cut = moved.place, moved.cut
	}
	if result, err = compact.Run(job); err == nil {
		err = moved.finish()
	}
	return result, err
}
