package jobs

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/parts"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An engine is the parts of a database in which only the test runs jobs.
type engine struct {
	*parts.Engine
	disk *memfs.FS
	jobs *Jobs
}

// newEngine returns an empty database with memtables of a size.
func newEngine(t *testing.T, memtableSize int64) *engine {
	t.Helper()
	e := &engine{disk: memfs.New()}
	e.Engine = parts.New(t, parts.Options{FS: e.disk, MemtableSize: memtableSize, TableSize: TableSize(memtableSize)})
	e.jobs = New(Options{
		Store: e.Store, Commits: e.Commits, Throttle: e.Throttle, Space: e.Space, Quarantine: e.Quarantine,
		Group: e.Group, Executor: e.Executor, Activity: e.Activity, Place: &e.Streams.Options, Report: parts.Report,
		Unmapped: e.Unmapped, HashSeed: e.HashSeed,
		MemtableSize: memtableSize, Settings: parts.Settings, VersionsMax: func() int { return 1 },
		Flush: parts.Nothing, Compact: parts.Nothing, Collect: parts.Nothing,
	})
	e.Start(e.jobs)
	return e
}

// tableBytes returns the size of all tables.
func (e *engine) tableBytes() int64 { return e.Store.Version().TableBytes() }
