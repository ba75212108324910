package collect

import (
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/check"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/jobs"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/parts"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An engine is the parts of a database in which only the test runs jobs.
type engine struct {
	*parts.Engine
	disk      *faultfs.FS
	jobs      *jobs.Jobs
	collector *Collector

	compactWakes int // how often the compactor was woken
}

// newEngine returns an empty database with memtables of a size.
func newEngine(t *testing.T, memtableSize int64) *engine {
	t.Helper()
	e := &engine{disk: faultfs.New(memfs.New())}
	compactor := func() { e.compactWakes++ }
	e.Engine = parts.New(t, parts.Options{FS: e.disk, MemtableSize: memtableSize,
		TableSize: jobs.TableSize(memtableSize), Compact: compactor})
	e.jobs = jobs.New(jobs.Options{
		Store: e.Store, Commits: e.Commits, Throttle: e.Throttle, Space: e.Space, Quarantine: e.Quarantine,
		Group: e.Group, Executor: e.Executor, Activity: e.Activity, Place: &e.Streams.Options, Report: parts.Report,
		Unmapped: e.Unmapped, HashSeed: e.HashSeed,
		MemtableSize: memtableSize, Settings: parts.Settings, VersionsMax: func() int { return 1 },
		Flush: parts.Nothing, Compact: compactor, Collect: parts.Nothing,
	})
	e.collector = New(Options{
		Store: e.Store, Commits: e.Commits, Throttle: e.Throttle, Space: e.Space, Quarantine: e.Quarantine,
		Group: e.Group, Executor: e.Executor, Report: parts.Report, Unmapped: e.Unmapped, MemoryBudget: parts.Budget,
		Load: e.jobs.Load, Quiet: e.Activity.Quiet, GatheringDue: e.jobs.GatheringDue, Compact: compactor,
	})
	e.Start(e.jobs)
	return e
}

// A transaction sets and deletes keys.
type transaction struct {
	e *engine
	w *commit.WriteSet
}

func (x transaction) set(key, value []byte) {
	x.w.Adds = true
	if len(value) >= parts.Large {
		x.w.Large += int64(len(value))
	}
	x.write(key, value, base.KindSet)
}

func (x transaction) delete(key []byte) { x.write(key, nil, base.KindDelete) }

func (x transaction) write(key, value []byte, kind base.Kind) {
	x.e.Must(x.w.Pending.Set(key, value, base.Hash(key, x.e.HashSeed), base.Meta{Kind: kind}, 0))
}

// update commits what write sets and deletes.
func (e *engine) update(write func(transaction)) {
	e.T.Helper()
	e.Update(func(w *commit.WriteSet) { write(transaction{e, w}) })
}

// sink takes everything to the last level, so that garbage is known.
func (e *engine) sink() {
	e.T.Helper()
	for {
		e.jobs.Compacting.Lock()
		plan, due := compact.PickRange(e.version(), e.jobs.Shape(work.Busy, e.Store.Horizon()), compact.Range{UpTo: base.SeqNumMax})
		var err error
		if due {
			err = e.jobs.Run(plan, e.Group.Err, nil)
		}
		e.jobs.Compacting.Unlock()
		e.Must(err)
		if !due {
			return
		}
	}
}

// get returns the value of a key in the tables. It is false without one.
func (e *engine) get(key []byte) ([]byte, bool) {
	e.T.Helper()
	view := e.Store.View()
	var arena codec.Arena
	value, m, seq, ok, err := view.Tree.Get(key, base.Hash(key, e.HashSeed), e.Store.Visible(), &arena)
	e.Must(err)
	if !ok || m.Kind == base.KindDelete {
		return nil, false
	}
	if m.Kind == base.KindPointer {
		p, err := values.DecodePointer(value)
		e.Must(err)
		r, err := view.Tree.Values(p.File)
		e.Must(err)
		value, err = r.Get(p, key, seq, &arena)
		e.Must(err)
	}
	return value, true
}

// check verifies all files.
func (e *engine) check() {
	e.T.Helper()
	files := tree.New(e.Unmapped)
	report, err := check.Run(check.Options{State: e.Store.State(), OpenTable: files.Open, OpenValues: files.OpenValues,
		Stop: func() error { return nil }})
	e.Must(err)
	if len(report.Problems) > 0 || report.Values == 0 {
		e.T.Errorf("%d value files, problems %v", report.Values, report.Problems)
	}
	e.Must(files.Close())
}

func (e *engine) version() *manifest.Version { return e.Store.Version() }

// collect runs a collection.
func (e *engine) collect(b Batch, known *LiveSet) {
	e.T.Helper()
	e.collector.Collecting.Lock()
	defer e.collector.Collecting.Unlock()
	e.Must(e.collector.Run(b, known, e.Group.Err))
}
