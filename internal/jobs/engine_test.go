package jobs

import (
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/quarantine"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
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
	disk       *memfs.FS
	seed       uint64
	manifest   *manifest.Store
	unmapped   tree.Options
	store      *state.Store
	commits    *commit.Committer
	quarantine quarantine.Quarantine
	jobs       *Jobs
	group      *work.Group
	space      *space.Reserve

	closed bool
}

// newEngine returns an empty database with memtables of a size.
func newEngine(t *testing.T, memtableSize int64) *engine {
	t.Helper()
	e := &engine{t: t, disk: memfs.New(), seed: rand.Uint64()}
	e.must(e.disk.MkdirAll(testDir))
	initial := manifest.State{FormatVersion: manifest.FormatVersion, HashSeed: e.seed}
	var err error
	e.manifest, err = manifest.Create(e.disk, testDir, initial, rand.Uint64)
	e.must(err)
	const budget = 256 << 20
	exec := &work.Executor{Manual: true}
	report, nothing := func(any) {}, func() {}
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
	e.space = space.New(space.Options{
		FS: e.disk, Dir: testDir, SegmentBytes: 64 << 10, TableSize: TableSize(memtableSize),
		Group: e.group, Report: report, MemtableBytes: e.store.MemtableBytes,
		Flush: nothing, Compact: nothing, Collect: nothing,
	})
	streams := &place.Streams{Group: e.group, Options: place.Options{Store: e.store, Threshold: testThreshold}}
	activity := new(work.Activity)
	e.commits = commit.New(commit.Options{
		Store: e.store, Space: e.space, Group: e.group, Executor: exec, Activity: activity, Streams: streams,
		Log: log.Options{FS: e.disk, Dir: testDir, Random: rand.Uint64, SegmentSizeMin: 64 << 10, SegmentSizeMax: 1 << 20,
			Go: func(job func()) { job() }},
		Report: report, HashSeed: e.seed, MemtableSize: memtableSize, LargeValueThreshold: testLarge,
		Flush: nothing, Compact: nothing, Collect: nothing,
	})
	brake := throttle.New(throttle.Options{MemtableSize: memtableSize, Group: e.group, Report: report,
		Fill: e.store.Fill, Failed: e.commits.Failed, Flush: nothing})
	e.commits.Bind(brake)
	e.jobs = New(Options{
		Store: e.store, Commits: e.commits, Throttle: brake, Space: e.space, Quarantine: &e.quarantine,
		Group: e.group, Executor: exec, Activity: activity, Place: &streams.Options, Report: report,
		Unmapped: e.unmapped, Codec: func(int) codec.ID { return codec.None }, HashSeed: e.seed,
		MemtableSize: memtableSize, NumVersions: 1, Flush: nothing, Compact: nothing, Collect: nothing,
	})
	e.store.SetHooks(state.Hooks{Installed: e.jobs.Installed, Sweep: nothing, Swept: e.jobs.Swept, Failed: e.commits.JobFailed})
	initial = e.manifest.State()
	e.must(e.commits.Recover(&initial))
	e.space.Edited(e.jobs.Need(initial.Version, e.store.Horizon()))
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

// update commits what write sets and deletes.
func (e *engine) update(write func(w *commit.WriteSet)) {
	e.t.Helper()
	w := e.commits.NewWriteSet()
	write(w)
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

// tableBytes returns the size of all tables.
func (e *engine) tableBytes() (bytes int64) {
	v := e.store.Version()
	for level := range v.Levels {
		bytes += v.Bytes(level)
	}
	return bytes
}
