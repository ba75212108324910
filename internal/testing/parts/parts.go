// Package parts assembles the lower parts of an engine, up to the commits, for the
// tests of the jobs above them. It knows none of these jobs, so the tests within their
// packages can import it.
package parts

import (
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/quarantine"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// Dir is the directory of the database.
	Dir = "/db"
	// Threshold is the length in bytes from which values lie apart. Large is the
	// length from which commits write them to value files themselves.
	Threshold, Large = 512, 4 << 10
	// Budget is the memory budget in bytes.
	Budget = 256 << 20
)

// Settings are the settings of all keyspaces.
func Settings(keyspace uint32) *settings.Settings {
	return &settings.Settings{NumVersions: 1, Compression: settings.None,
		ValueThreshold: Threshold, LargeValueThreshold: Large}
}

// Options say what the parts are for.
type Options struct {
	FS           vfs.FS
	MemtableSize int64  // bytes
	TableSize    int64  // bytes; jobs.TableSize(MemtableSize)
	Compact      func() // wakes the compactor; nil does nothing
}

// An Engine is the parts of a database in which only the test runs jobs.
type Engine struct {
	T          *testing.T
	HashSeed   uint64
	Executor   *work.Executor
	Activity   *work.Activity
	Group      *work.Group
	Manifest   *manifest.Store
	Unmapped   tree.Options
	Store      *state.Store
	Space      *space.Reserve
	Streams    *place.Streams
	Commits    *commit.Committer
	Throttle   *throttle.Throttle
	Quarantine *quarantine.Quarantine

	jobs   Jobs
	closed bool
}

// Report drops an event.
func Report(any) {}

// Nothing wakes no job.
func Nothing() {}

// New returns the parts of an empty database. The caller assembles its jobs and then
// calls Start.
func New(t *testing.T, o Options) *Engine {
	t.Helper()
	if o.Compact == nil {
		o.Compact = Nothing
	}
	e := &Engine{T: t, HashSeed: rand.Uint64(), Executor: &work.Executor{Manual: true},
		Activity: new(work.Activity), Quarantine: new(quarantine.Quarantine)}
	e.Must(o.FS.MkdirAll(Dir))
	initial := manifest.State{FormatVersion: manifest.FormatVersion, HashSeed: e.HashSeed}
	var err error
	e.Manifest, err = manifest.Create(o.FS, Dir, initial, rand.Uint64, nil)
	e.Must(err)
	e.Group = work.NewGroup(e.Executor)
	e.Unmapped = tree.Options{FS: o.FS, Dir: Dir, HashSeed: e.HashSeed}
	e.Store = state.New(state.Options{
		FS: o.FS, Dir: Dir, Clock: base.SystemClock{}, Executor: e.Executor, Report: Report,
		MemtableSize: o.MemtableSize, MemoryBudget: Budget, Manifest: e.Manifest, State: e.Manifest.State(),
		Files: func(func() bool) *tree.Files {
			mapped := e.Unmapped
			mapped.MappedOnly = true
			return tree.New(mapped)
		},
		Freed: Nothing,
	})
	e.Space = space.New(space.Options{
		FS: o.FS, Dir: Dir, SegmentBytes: 64 << 10, TableSize: o.TableSize,
		Group: e.Group, Report: Report, MemtableBytes: e.Store.MemtableBytes,
		Flush: Nothing, Compact: o.Compact, Collect: Nothing,
	})
	e.Streams = &place.Streams{Group: e.Group, Options: place.Options{Store: e.Store, Settings: Settings}}
	e.Commits = commit.New(commit.Options{
		Store: e.Store, Space: e.Space, Group: e.Group, Executor: e.Executor, Activity: e.Activity, Streams: e.Streams,
		Log: log.Options{FS: o.FS, Dir: Dir, Random: rand.Uint64, SegmentSizeMin: 64 << 10, SegmentSizeMax: 1 << 20,
			Go: e.Executor.Go},
		Report: Report, HashSeed: e.HashSeed, MemtableSize: o.MemtableSize, Settings: Settings,
		Flush: Nothing, Compact: o.Compact, Collect: Nothing,
	})
	e.Throttle = throttle.New(throttle.Options{MemtableSize: o.MemtableSize, Group: e.Group, Report: Report,
		Fill: e.Store.Fill, Failed: e.Commits.Failed, Flush: Nothing})
	e.Commits.Bind(e.Throttle)
	return e
}

// Jobs are the jobs that a database cannot do without. *jobs.Jobs implements them.
type Jobs interface {
	Installed(s *manifest.State, edit *manifest.Edit)
	Swept(freed bool)
	Need(v *manifest.Version, horizon uint64) space.Need
	FlushNext() (due bool, err error)
}

// Start makes the database ready for commits. The end of the test closes it.
func (e *Engine) Start(jobs Jobs) {
	e.T.Helper()
	e.jobs = jobs
	e.Store.SetHooks(state.Hooks{Installed: jobs.Installed, Sweep: Nothing, Swept: jobs.Swept, Failed: e.Commits.JobFailed})
	initial := e.Manifest.State()
	e.Must(e.Commits.Recover(&initial))
	e.Space.Edited(jobs.Need(initial.Version, e.Store.Horizon()))
	e.T.Cleanup(e.Close)
}

// Must ends the test if err is not nil.
func (e *Engine) Must(err error) {
	e.T.Helper()
	if err != nil {
		e.T.Fatal(err)
	}
}

// Close closes the database, once.
func (e *Engine) Close() {
	if e.closed {
		return
	}
	e.closed = true
	e.Store.Closing()
	e.Commits.Drain()
	e.Group.End()
	if err := e.Commits.CloseLog(true); err != nil {
		e.T.Error(err)
	}
	if err := e.Manifest.Close(); err != nil {
		e.T.Error(err)
	}
	e.Store.Shut()
}

// Update commits what write adds to a set of writes.
func (e *Engine) Update(write func(w *commit.WriteSet)) {
	e.T.Helper()
	w := e.Commits.NewWriteSet()
	write(w)
	e.Must(e.Commits.Submit(e.T.Context(), w.Request(e.Store.Visible(), true)))
	e.Commits.FreeWriteSet(w)
}

// Flush flushes all memtables.
func (e *Engine) Flush() {
	e.T.Helper()
	e.Must(e.Commits.Rotate(true))
	_, err := e.jobs.FlushNext()
	e.Must(err)
}
