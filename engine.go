package stoat

import (
	"iter"
	"math/rand/v2"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/changes"
	"github.com/stoatdb/stoat/internal/checkpoint"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/governor"
	"github.com/stoatdb/stoat/internal/ingest"
	"github.com/stoatdb/stoat/internal/jobs"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/manual"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/spaces"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/transaction"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
)

// decodedShare is the part of the memory budget that the cache of decoded blocks
// may use: the budget divided by decodedShare.
const decodedShare = 8

// assemble makes the parts of the engine, from the lowest to the highest, and
// connects them. A part gets state as values, and wakes another part through a
// function. No part knows the DB.
func (d *DB) assemble(s manifest.State) {
	o := &d.opts
	d.hashSeed = s.HashSeed
	users := make([]partial.Function, len(o.MergeFunctions))
	for i, f := range o.MergeFunctions {
		users[i] = f
	}
	functions := transaction.Functions(&d.settings, users)
	d.group = work.NewGroup(d.exec)
	d.flusher, d.sweeper = work.NewWorker(work.RetryAfter), work.NewWorker(work.RetryAfter)
	d.compactor, d.collectorWorker = work.NewWorker(work.RetryMax), work.NewWorker(work.RetryMax)
	d.collectorWorker.Patient = true // every flush and compaction wakes it
	d.governorWorker, d.dropper = work.NewWorker(work.RetryMax), work.NewWorker(work.RetryMax)
	flush, compact, collectGarbage := d.flusher.Wake, d.compactor.Wake, d.collectorWorker.Wake
	d.unmapped = tree.Options{FS: o.FS, Dir: d.dir, HashSeed: d.hashSeed, Sealed: d.keys != nil}
	d.decoded = cache.New(o.MemoryBudget / decodedShare)

	d.store = state.New(state.Options{
		FS: o.FS, Dir: d.dir, ReadOnly: o.ReadOnly, Follows: o.follows, Clock: o.Clock, Executor: d.exec, Report: d.emit,
		MemtableSize: o.MemtableSize, MemoryBudget: o.MemoryBudget,
		Manifest: d.manifest, State: s, Files: d.mappedFiles, Freed: d.decoded.Close,
	})
	segmentMin, segmentMax := o.segmentSizes()
	d.space = space.New(space.Options{
		FS: o.FS, Dir: d.dir, SegmentBytes: segmentMin, TableSize: jobs.TableSize(o.MemtableSize),
		Group: d.group, Report: d.emit, MemtableBytes: d.store.MemtableBytes,
		Flush: flush, Compact: compact, Collect: collectGarbage,
	})
	d.streams = &place.Streams{Group: d.group, Options: place.Options{
		Store: d.store, Settings: d.settings.Of}}
	d.commits = commit.New(commit.Options{
		Store: d.store, Space: d.space, Group: d.group, Executor: d.exec, Activity: &d.activity, Streams: d.streams,
		Log: d.logOptions(segmentMin, segmentMax), Report: d.emit, HashSeed: d.hashSeed,
		Functions: functions, MemtableSize: o.MemtableSize, Settings: d.settings.Of,
		Flush: flush, Compact: compact, Collect: collectGarbage,
	})
	e := &d.transactions
	e.Store, e.Commits, e.Space, e.Streams, e.Settings = d.store, d.commits, d.space, d.streams, &d.settings
	e.Functions, e.HashSeed, e.MemtableSize = functions, d.hashSeed, o.MemtableSize
	e.Durability = transaction.Durability(o.Durability)
	d.throttle = throttle.New(throttle.Options{
		MemtableSize: o.MemtableSize, Group: d.group, Report: d.emit,
		Fill: d.store.Fill, Failed: d.commits.Failed, Flush: flush,
	})
	d.commits.Bind(d.throttle)
	d.changes = changes.Engine{Store: d.store, Commits: d.commits, Group: d.group}
	d.jobs = jobs.New(jobs.Options{
		Store: d.store, Commits: d.commits, Throttle: d.throttle, Space: d.space, Quarantine: &d.quarantine,
		Group: d.group, Executor: d.exec, Activity: &d.activity, Place: &d.streams.Options, Report: d.emit,
		Unmapped: d.unmapped, HashSeed: d.hashSeed,
		MemtableSize: o.MemtableSize, Settings: d.settings.Of, VersionsMax: d.settings.VersionsMax,
		Raises: raises{d}, Functions: functions, Screen: d.screenOf(),
		Flush: flush, Compact: compact, Collect: collectGarbage,
	})
	d.collector = collect.New(collect.Options{
		Store: d.store, Commits: d.commits, Throttle: d.throttle, Space: d.space, Quarantine: &d.quarantine,
		Group: d.group, Executor: d.exec, Report: d.emit, Unmapped: d.unmapped, MemoryBudget: o.MemoryBudget,
		Load: d.jobs.Load, GatheringDue: d.jobs.GatheringDue, Compact: compact,
		// Only a mutant writes values back.
		WriteBack: func(live iter.Seq2[values.Live, error]) error {
			return d.Update(func(tx Txn) error { return tx.t.WriteBack(live) })
		},
	})
	d.store.SetHooks(state.Hooks{
		Installed: d.jobs.Installed, Sweep: d.sweeper.Wake, Swept: d.jobs.Swept, Failed: d.commits.JobFailed})
	d.manual = manual.Engine{Store: d.store, Commits: d.commits, Jobs: d.jobs, Collector: d.collector,
		Space: d.space, Quarantine: &d.quarantine, Group: d.group}
	d.ingests = ingest.Engine{Store: d.store, Commits: d.commits, Jobs: d.jobs, Space: d.space, Throttle: d.throttle,
		Place: &d.streams.Options, Group: d.group, Executor: d.exec, Unmapped: d.unmapped}
	d.spaces = spaces.New(spaces.Options{Store: d.store, Commits: d.commits, Group: d.group, HashSeed: d.hashSeed,
		Free: d.manual.Free, Changed: d.settings.Set, Dropped: d.wakeDropper, Discarded: compact})
	d.checkpoints = checkpoint.New(checkpoint.Options{Store: d.store, Executor: d.exec, Report: d.emit,
		Flush: d.commits.FlushAll, LockName: lockName, Keys: d.keys})
	var decrypted *seal.Memory
	if d.keys != nil {
		decrypted = &d.keys.Memory
	}
	d.governor = governor.New(d.store, d.emit, decrypted)
}

// mappedFiles returns the files that callers read, through mappings only.
func (d *DB) mappedFiles(closed func() bool) *tree.Files {
	o := d.unmapped
	o.MappedOnly, o.Used, o.Cache, o.KeepsValues = true, d.governorWorker.Wake, d.decoded, d.opts.follows
	o.Closed = func() error {
		if closed() {
			return ErrClosed
		}
		return nil
	}
	return tree.New(o)
}

func (d *DB) logOptions(segmentMin, segmentMax int64) log.Options {
	return log.Options{FS: d.opts.FS, Dir: d.dir, Random: rand.Uint64, Seal: sealer(d.keys), Go: d.exec.Go,
		SegmentSizeMin: segmentMin, SegmentSizeMax: segmentMax}
}

// segmentSizes returns the smallest and the largest size of a log segment, in
// bytes. The log keeps spare segments, so a database with small memtables has small
// segments.
func (o *Options) segmentSizes() (least, most int64) {
	const page = 4 << 10
	least = min(max(o.MemtableSize/4, 32<<10), 256<<10) / page * page
	most = min(max(o.MemtableSize/2, least), 16<<20) / page * page
	return least, most
}

// startWorkers starts the goroutines of background jobs, unless the executor is
// manual. Close ends a worker between two steps, and interrupts long jobs.
func (d *DB) startWorkers() {
	d.group.Run(d.governorWorker, 0, d.governor.Step)
	if every := d.opts.FollowEvery; d.opts.follows && every > 0 {
		d.group.Run(work.NewWorker(time.Second), every, d.follower.Step)
	}
	if d.opts.ReadOnly || d.exec.Manual {
		return
	}
	d.activity.Note() // a program that opens a database will soon use it
	d.group.Run(d.flusher, work.IdleAfter, d.jobs.FlushStep)
	d.group.Run(d.compactor, 0, d.jobs.CompactStep)
	d.group.Run(d.collectorWorker, 0, d.collector.Step)
	if d.spaces.Dropping() { // the last opening has not freed all that it dropped
		d.wakeDropper()
	}
	d.group.Run(d.sweeper, 0, func() (time.Duration, error) { d.store.Sweep(); return 0, nil })
}

// wakeDropper wakes the dropper, and starts its goroutine the first time: most
// databases drop no keyspace. The caller is Open or an operation of the group.
func (d *DB) wakeDropper() {
	d.dropperStart.Do(func() { d.group.Run(d.dropper, 0, d.spaces.Step) })
	d.dropper.Wake()
}

// raises is jobs.Raises. The registry of keyspaces is made after the jobs.
type raises struct{ d *DB }

func (r raises) SettledBelow(number uint32, before base.SeqNum) uint64 {
	return r.d.spaces.SettledBelow(number, before)
}

func (r raises) LastRaise(number uint32) (last base.SeqNum, next base.FileNum, rose bool) {
	return r.d.spaces.LastRaise(number)
}
