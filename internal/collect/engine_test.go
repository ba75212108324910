package collect

import (
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/check"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/jobs"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/quarantine"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const (
	testDir = "/db"
	// testThreshold is the length in bytes from which values lie apart, and
	// testLarge that from which commits write them to value files themselves.
	testThreshold, testLarge = 512, 4 << 10
)

// An engine is the parts of a database in which only the test runs jobs.
type engine struct {
	t          *testing.T
	disk       *faultfs.FS
	seed       uint64
	manifest   *manifest.Store
	unmapped   tree.Options
	store      *state.Store
	commits    *commit.Committer
	quarantine quarantine.Quarantine
	jobs       *jobs.Jobs
	group      *work.Group
	collector  *Collector

	compactWakes int // how often the compactor was woken
	closed       bool
}

// newEngine returns an empty database with memtables of a size.
func newEngine(t *testing.T, memtableSize int64) *engine {
	t.Helper()
	e := &engine{t: t, disk: faultfs.New(memfs.New()), seed: rand.Uint64()}
	e.must(e.disk.MkdirAll(testDir))
	initial := manifest.State{FormatVersion: manifest.FormatVersion, HashSeed: e.seed}
	var err error
	e.manifest, err = manifest.Create(e.disk, testDir, initial, rand.Uint64)
	e.must(err)
	const budget = 256 << 20
	exec := &work.Executor{Manual: true}
	report, nothing := func(any) {}, func() {}
	compactor := func() { e.compactWakes++ }
	e.group = work.NewGroup(exec)
	e.unmapped = tree.Options{FS: e.disk, Dir: testDir, HashSeed: e.seed}
	e.store = state.New(state.Options{
		FS: e.disk, Dir: testDir, Clock: base.SystemClock{}, Executor: exec, Report: report,
		MemtableSize: memtableSize, MemoryBudget: budget, Manifest: e.manifest, State: e.manifest.State(),
		Files: func(func() bool) *tree.Files {
			o := e.unmapped
			o.MappedOnly = true
			return tree.New(o)
		},
		Freed: nothing,
	})
	reserve := space.New(space.Options{
		FS: e.disk, Dir: testDir, SegmentBytes: 64 << 10, TableSize: jobs.TableSize(memtableSize),
		Group: e.group, Report: report, MemtableBytes: e.store.MemtableBytes,
		Flush: nothing, Compact: compactor, Collect: nothing,
	})
	streams := &place.Streams{Group: e.group, Options: place.Options{Store: e.store, Threshold: testThreshold}}
	activity := new(work.Activity)
	e.commits = commit.New(commit.Options{
		Store: e.store, Space: reserve, Group: e.group, Executor: exec, Activity: activity, Streams: streams,
		Log: log.Options{FS: e.disk, Dir: testDir, Random: rand.Uint64, SegmentSizeMin: 64 << 10, SegmentSizeMax: 1 << 20,
			Go: func(job func()) { job() }},
		Report: report, HashSeed: e.seed, MemtableSize: memtableSize, LargeValueThreshold: testLarge,
		Flush: nothing, Compact: compactor, Collect: nothing,
	})
	brake := throttle.New(throttle.Options{MemtableSize: memtableSize, Group: e.group, Report: report,
		Fill: e.store.Fill, Failed: e.commits.Failed, Flush: nothing})
	e.commits.Bind(brake)
	e.jobs = jobs.New(jobs.Options{
		Store: e.store, Commits: e.commits, Throttle: brake, Space: reserve, Quarantine: &e.quarantine,
		Group: e.group, Executor: exec, Activity: activity, Place: &streams.Options, Report: report,
		Unmapped: e.unmapped, Codec: func(int) codec.ID { return codec.None }, HashSeed: e.seed,
		MemtableSize: memtableSize, NumVersions: 1, Flush: nothing, Compact: compactor, Collect: nothing,
	})
	e.collector = New(Options{
		Store: e.store, Commits: e.commits, Throttle: brake, Space: reserve, Quarantine: &e.quarantine,
		Group: e.group, Executor: exec, Report: report, Unmapped: e.unmapped, MemoryBudget: budget,
		Load: e.jobs.Load, GatheringDue: e.jobs.GatheringDue, Compact: compactor,
	})
	e.store.SetHooks(state.Hooks{Installed: e.jobs.Installed, Sweep: nothing, Swept: e.jobs.Swept, Failed: e.commits.JobFailed})
	initial = e.manifest.State()
	e.must(e.commits.Recover(&initial))
	reserve.Edited(e.jobs.Need(initial.Version, e.store.Horizon()))
	t.Cleanup(e.close)
	return e
}

func (e *engine) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// close closes the database, once.
func (e *engine) close() {
	if e.closed {
		return
	}
	e.closed = true
	e.store.Closing()
	e.commits.Drain()
	e.group.End()
	if err := e.commits.CloseLog(true); err != nil {
		e.t.Error(err)
	}
	if err := e.manifest.Close(); err != nil {
		e.t.Error(err)
	}
	e.store.Shut()
}

// A transaction sets and deletes keys.
type transaction struct {
	e *engine
	w *commit.WriteSet
}

func (x transaction) set(key, value []byte) {
	x.w.Adds = true
	if len(value) >= testLarge {
		x.w.Large += int64(len(value))
	}
	x.write(key, value, base.KindSet)
}

func (x transaction) delete(key []byte) { x.write(key, nil, base.KindDelete) }

func (x transaction) write(key, value []byte, kind base.Kind) {
	x.e.must(x.w.Pending.Set(key, value, base.Hash(key, x.e.seed), base.Meta{Kind: kind}, 0))
}

// update commits what write sets and deletes.
func (e *engine) update(write func(transaction)) {
	e.t.Helper()
	w := e.commits.NewWriteSet()
	write(transaction{e, w})
	e.must(e.commits.Submit(e.t.Context(), w.Request(e.store.Visible(), true)))
	e.commits.FreeWriteSet(w)
}

// flush flushes all memtables.
func (e *engine) flush() {
	e.t.Helper()
	e.must(e.commits.Rotate(true))
	_, err := e.jobs.FlushNext()
	e.must(err)
}

// sink takes everything to the last level, so that garbage is known.
func (e *engine) sink() {
	e.t.Helper()
	for {
		e.jobs.Compacting.Lock()
		plan, due := compact.PickRange(e.version(), e.jobs.Shape(work.Busy, e.store.Horizon()), compact.Range{UpTo: base.SeqNumMax})
		var err error
		if due {
			err = e.jobs.Run(plan, e.group.Err, nil)
		}
		e.jobs.Compacting.Unlock()
		e.must(err)
		if !due {
			return
		}
	}
}

// get returns the value of a key in the tables. It is false without one.
func (e *engine) get(key []byte) ([]byte, bool) {
	e.t.Helper()
	view := e.store.View()
	var arena codec.Arena
	value, m, seq, ok, err := view.Tree.Get(key, base.Hash(key, e.seed), e.store.Visible(), &arena)
	e.must(err)
	if !ok || m.Kind == base.KindDelete {
		return nil, false
	}
	if m.Kind == base.KindPointer {
		p, err := values.DecodePointer(value)
		e.must(err)
		r, err := view.Tree.Values(p.File)
		e.must(err)
		value, err = r.Get(p, key, seq, &arena)
		e.must(err)
	}
	return value, true
}

// check verifies all files.
func (e *engine) check() {
	e.t.Helper()
	files := tree.New(e.unmapped)
	report, err := check.Run(check.Options{State: e.store.State(), OpenTable: files.Open, OpenValues: files.OpenValues,
		Stop: func() error { return nil }})
	e.must(err)
	if len(report.Problems) > 0 || report.Values == 0 {
		e.t.Errorf("%d value files, problems %v", report.Values, report.Problems)
	}
	e.must(files.Close())
}

func (e *engine) version() *manifest.Version { return e.store.Version() }

// collect runs a collection.
func (e *engine) collect(b Batch, known *LiveSet) {
	e.t.Helper()
	e.collector.Collecting.Lock()
	defer e.collector.Collecting.Unlock()
	e.must(e.collector.Run(b, known, e.group.Err))
}
