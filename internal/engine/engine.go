// Package engine assembles the parts of a database, opens and closes them.
//
// Package stoat holds an Engine, and calls its parts for the methods of DB.
package engine

import (
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/changes"
	"github.com/stoatdb/stoat/internal/checkpoint"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/follow"
	"github.com/stoatdb/stoat/internal/governor"
	"github.com/stoatdb/stoat/internal/ingest"
	"github.com/stoatdb/stoat/internal/jobs"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/manual"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/quarantine"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/spaces"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/transaction"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// Options are what an Engine is made of. Options of the database have their defaults.
type Options struct {
	// FS is strict about the files in Dir, an absolute path; see vfs.Strict.
	FS  vfs.FS
	Dir string
	// ReadOnly and MustExist are options of the database, as are the fields up to Settings.
	ReadOnly, MustExist        bool
	Follows                    bool // opened by OpenFollower
	FollowEvery                time.Duration
	Clock                      base.Clock
	MemoryBudget, MemtableSize int64
	Durability                 transaction.Durability
	MergeFunctions             []partial.Function
	// Keys is nil without encryption. DataKeyAge is that of the database.
	Keys       seal.Provider
	DataKeyAge time.Duration
	// Settings are those among the options, zero where the caller gave none.
	Settings settings.Given
	// Screen asks the filter with a name about an entry. It is nil if no filter is
	// registered.
	Screen func(filter string, e *base.Entry, value func() ([]byte, error)) (compact.Decision, []byte)

	// Upgrade makes Open store all settings.
	Upgrade bool
	// Report takes the events, and Executor runs the background jobs.
	Report   event.Sink
	Executor work.Executor
}

// An Engine holds the parts of a database. Each part gets those below it and plain
// values; docs/architecture.md describes them. All fields are immutable after Open.
type Engine struct {
	o    Options // FS encrypts the files of an encrypted database
	raw  vfs.FS  // the same without encryption
	lock io.Closer
	exec *work.Executor

	Manifest *manifest.Store
	Settings settings.Table // of the keyspaces
	Keys     *seal.Keys     // nil if the database is not encrypted
	Decoded  *cache.Cache   // decoded blocks of compressed tables
	Unmapped tree.Options   // for jobs, which read files without mappings
	Upgraded Upgraded       // what Options.Upgrade has found

	Group    *work.Group
	Activity work.Activity
	Workers  Workers

	Store        *state.Store
	Space        *space.Reserve
	Throttle     *throttle.Throttle
	Streams      *place.Streams
	Commits      *commit.Committer
	Transactions transaction.Engine
	Changes      changes.Engine
	Quarantine   quarantine.Quarantine
	Jobs         *jobs.Jobs
	Collector    *collect.Collector
	Manual       manual.Engine
	Ingests      ingest.Engine
	Spaces       *spaces.Registry
	Checkpoints  *checkpoint.Maker
	Governor     *governor.Governor
	Follower     *follow.Follower // nil unless Options.Follows

	dropperStart sync.Once
}

// Workers are the goroutines of background jobs.
type Workers struct {
	Flusher, Compactor, Collector, Sweeper, Governor, Dropper *work.Worker
}

func newWorkers(exec *work.Executor) Workers {
	w := Workers{
		Flusher: work.NewWorker(exec, work.RetryAfter), Sweeper: work.NewWorker(exec, work.RetryAfter),
		Compactor: work.NewWorker(exec, work.RetryMax), Collector: work.NewWorker(exec, work.RetryMax),
		Governor: work.NewWorker(exec, work.RetryMax), Dropper: work.NewWorker(exec, work.RetryMax),
	}
	w.Collector.Patient = true // every flush and compaction wakes it
	return w
}

// decodedShare is the part of the memory budget that the cache of decoded blocks
// may use: the budget divided by decodedShare.
const decodedShare = 8

// assemble makes the parts, from the lowest to the highest, and connects them. A part
// gets state as values, and wakes another part through a function.
func (e *Engine) assemble(s manifest.State) {
	o := &e.o
	e.Group = work.NewGroup(e.exec)
	e.Workers = newWorkers(e.exec)
	e.Unmapped = tree.Options{FS: o.FS, Dir: o.Dir, HashSeed: s.HashSeed}
	e.Decoded = cache.New(o.MemoryBudget / decodedShare)
	e.assembleWrites(s)
	e.assembleJobs(s)
	e.assembleCalls()
}

// assembleWrites makes what transactions use: the state, and the path of a write.
func (e *Engine) assembleWrites(s manifest.State) {
	o, w := &e.o, &e.Workers
	flush, compact, collectGarbage := w.Flusher.Wake, w.Compactor.Wake, w.Collector.Wake
	functions := transaction.Functions(&e.Settings, o.MergeFunctions)
	e.Store = state.New(state.Options{
		FS: o.FS, Dir: o.Dir, ReadOnly: o.ReadOnly, Follows: o.Follows, Clock: o.Clock, Executor: e.exec, Report: o.Report,
		MemtableSize: o.MemtableSize, MemoryBudget: o.MemoryBudget,
		Manifest: e.Manifest, State: s, Files: e.mappedFiles, Freed: e.Decoded.Close,
	})
	segmentMin, segmentMax := segmentSizes(o.MemtableSize)
	e.Space = space.New(space.Options{
		FS: o.FS, Dir: o.Dir, SegmentBytes: segmentMin, TableSize: jobs.TableSize(o.MemtableSize),
		Group: e.Group, Report: o.Report, MemtableBytes: e.Store.MemtableBytes,
		Flush: flush, Compact: compact, Collect: collectGarbage,
	})
	e.Streams = &place.Streams{Group: e.Group, Options: place.Options{
		Store: e.Store, Settings: e.Settings.Of}}
	e.Commits = commit.New(commit.Options{
		Store: e.Store, Space: e.Space, Group: e.Group, Executor: e.exec, Activity: &e.Activity, Streams: e.Streams,
		Log: log.Options{FS: o.FS, Dir: o.Dir, Random: rand.Uint64, Seal: sealer(e.Keys), Go: e.exec.Go,
			SegmentSizeMin: segmentMin, SegmentSizeMax: segmentMax, Space: e.Space},
		Report: o.Report, HashSeed: s.HashSeed,
		Functions: functions, MemtableSize: o.MemtableSize, Settings: e.Settings.Of,
		Flush: flush, Compact: compact, Collect: collectGarbage,
	})
	t := &e.Transactions
	t.Store, t.Commits, t.Space, t.Streams, t.Settings = e.Store, e.Commits, e.Space, e.Streams, &e.Settings
	t.Group, t.Compact = e.Group, compact
	t.NoGaps = o.Follows || o.Screen != nil
	t.Functions, t.HashSeed, t.MemtableSize, t.Durability = functions, s.HashSeed, o.MemtableSize, o.Durability
	e.Throttle = throttle.New(throttle.Options{
		MemtableSize: o.MemtableSize, Group: e.Group, Report: o.Report,
		Fill: e.Store.Fill, Failed: e.Commits.Failed, Flush: flush,
	})
	e.Commits.Bind(e.Throttle)
	e.Changes = changes.Engine{Store: e.Store, Group: e.Group}
	if !o.ReadOnly {
		e.Changes.Log = func(after base.SeqNum) changes.Log { return e.Commits.ReadLog(after) }
	}
}

// assembleJobs makes the keyspaces and the background jobs.
func (e *Engine) assembleJobs(s manifest.State) {
	o, w := &e.o, &e.Workers
	flush, compact, collectGarbage := w.Flusher.Wake, w.Compactor.Wake, w.Collector.Wake
	e.Spaces = spaces.New(spaces.Options{Store: e.Store, Commits: e.Commits, Group: e.Group, HashSeed: s.HashSeed,
		Free: e.Manual.Free, Changed: e.Settings.Set, Dropped: e.wakeDropper, Discarded: compact, Report: o.Report})
	e.Jobs = jobs.New(jobs.Options{
		Store: e.Store, Commits: e.Commits, Throttle: e.Throttle, Space: e.Space, Quarantine: &e.Quarantine,
		Group: e.Group, Executor: e.exec, Activity: &e.Activity, Place: &e.Streams.Options, Report: o.Report,
		Unmapped: e.Unmapped, HashSeed: s.HashSeed,
		MemtableSize: o.MemtableSize, Settings: e.Settings.Of, VersionsMax: e.Settings.VersionsMax,
		Raises: e.Spaces, Functions: e.Transactions.Functions, Screen: e.screen(),
		Flush: flush, Compact: compact, Collect: collectGarbage,
	})
	e.Collector = collect.New(collect.Options{
		Store: e.Store, Commits: e.Commits, Throttle: e.Throttle, Space: e.Space, Quarantine: &e.Quarantine,
		Group: e.Group, Executor: e.exec, Report: o.Report, Unmapped: e.Unmapped, MemoryBudget: o.MemoryBudget,
		Load: e.Jobs.Load, Quiet: e.Activity.Quiet, GatheringDue: e.Jobs.GatheringDue, Compact: compact,
	})
	e.Store.SetHooks(state.Hooks{
		Installed: e.Jobs.Installed, Sweep: w.Sweeper.Wake, Swept: e.Jobs.Swept, Failed: e.Commits.JobFailed})
	var decrypted *seal.Memory
	if e.Keys != nil {
		decrypted = &e.Keys.Memory
	}
	e.Governor = governor.New(e.Store, o.Report, decrypted)
}

// assembleCalls makes the parts for calls that are jobs of their own.
func (e *Engine) assembleCalls() {
	o := &e.o
	e.Manual = manual.Engine{Store: e.Store, Commits: e.Commits, Jobs: e.Jobs, Collector: e.Collector,
		Space: e.Space, Quarantine: &e.Quarantine, Group: e.Group}
	e.Ingests = ingest.Engine{Store: e.Store, Commits: e.Commits, Jobs: e.Jobs, Space: e.Space, Throttle: e.Throttle,
		Place: &e.Streams.Options, Group: e.Group, Executor: e.exec, Unmapped: e.Unmapped}
	e.Checkpoints = checkpoint.New(checkpoint.Options{Store: e.Store, Executor: e.exec, Report: o.Report,
		Settings: e.Settings.Of, Hold: e.holdAll, Keys: e.Keys})
}

// mappedFiles returns the files that callers read, through mappings only.
func (e *Engine) mappedFiles(closed func() bool) *tree.Files {
	o := e.Unmapped
	o.MappedOnly, o.Used, o.Cache, o.KeepsValues = true, e.Workers.Governor.Wake, e.Decoded, e.o.Follows
	o.Scanned = e.Workers.Compactor.Wake
	o.Closed = func() error {
		if closed() {
			return base.ErrClosed
		}
		return nil
	}
	return tree.New(o)
}

// screen returns jobs.Options.Screen, which asks the filter of the entry's keyspace. It
// returns nil if no filter is registered.
func (e *Engine) screen() compact.Screen {
	if e.o.Screen == nil {
		return nil
	}
	return func(entry *base.Entry, value func() ([]byte, error)) (compact.Decision, []byte) {
		filter := e.Settings.OfKey(entry.Key).Filter
		if filter == "" {
			return compact.ScreenKeep, nil
		}
		return e.o.Screen(filter, entry, value)
	}
}

// segmentSizes returns the smallest and the largest size of a log segment, in
// bytes. The log keeps spare segments, so a database with small memtables has small
// segments.
func segmentSizes(memtableSize int64) (least, most int64) {
	const page = 4 << 10
	least = min(max(memtableSize/4, 32<<10), 256<<10) / page * page
	most = min(max(memtableSize/2, least), 16<<20) / page * page
	return least, most
}

// The time after which an open database merges runs of level 0, which slow down reads. A
// program that only looks up a few keys has ended by then. Where most bytes are in value
// files, runs matter less, and the first pass of a reader needs the processors to verify
// values.
const (
	mergeAfterOpen       = 10 * time.Millisecond
	mergeAfterFirstReads = 500 * time.Millisecond
)

// mergesAfter returns the time after which a database merges that was just opened.
func mergesAfter(v *manifest.Version) time.Duration {
	values := uint64(0)
	for _, f := range v.Values {
		values += f.Live
	}
	if uint64(v.Bytes(0)) < values {
		return mergeAfterFirstReads
	}
	return mergeAfterOpen
}

// startWorkers starts the goroutines of background jobs, unless the executor is
// manual. Close ends a worker between two steps, and interrupts long jobs.
func (e *Engine) startWorkers() {
	w := &e.Workers
	e.Group.Run(w.Governor, 0, e.Governor.Step)
	e.startFollowing()
	e.Group.Run(w.Sweeper, 0, func() (time.Duration, error) { e.Store.Sweep(); return 0, nil })
	if e.o.ReadOnly || e.exec.Manual {
		return
	}
	e.Activity.Open()
	e.Group.Run(w.Flusher, work.IdleAfter, e.Jobs.FlushStep)
	e.Group.Run(w.Compactor, mergesAfter(e.Store.Version()), e.Jobs.CompactStep)
	e.Group.Run(w.Collector, 0, e.Collector.Step)
	if e.Spaces.Dropping() { // the last opening has not freed all that it dropped
		e.wakeDropper()
	}
}

// wakeDropper wakes the dropper, and starts its goroutine the first time: most
// databases drop no keyspace. The caller is Open or an operation of the group.
func (e *Engine) wakeDropper() {
	e.dropperStart.Do(func() { e.Group.Run(e.Workers.Dropper, 0, e.Spaces.Step) })
	e.Workers.Dropper.Wake()
}
