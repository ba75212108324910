package stoat

import (
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Stats says how a database is doing. Counts are since Open.
type Stats struct {
	// Version is the newest version that readers see.
	Version uint64
	// Commits counts transactions that wrote, Conflicts those that met
	// ErrConflict, Groups how many writes to the log carried them, and Syncs
	// how many of those were synced.
	Commits, Conflicts, Groups, Syncs uint64
	// Readers is how many transactions are open; OldestVersion is the oldest
	// snapshot among them, or Version.
	Readers       int
	OldestVersion uint64
	// Memtables is how many there are, MemtableBytes the memory they hold,
	// outside the Go heap, and MemtableEntries the versions in them.
	Memtables       int
	MemtableBytes   int64
	MemtableEntries int64
	// Tables is how many there are, TableBytes their size, and Levels what
	// each level holds of them.
	Tables     int
	TableBytes int64
	Levels     [manifest.Levels]LevelStats
	// Flushes and Compactions count what was done in the background, and
	// FlushedBytes, CompactedBytes what they wrote.
	Flushes, Compactions         int64
	FlushedBytes, CompactedBytes int64
	// Values is how many value files there are, ValueBytes their size,
	// ValueGarbage how much of that nothing refers to, Collections how many
	// of them were rewritten or dropped, and CollectedBytes what that wrote.
	Values                      int
	ValueBytes, ValueGarbage    int64
	Collections, CollectedBytes int64
	// Waits is how often commits waited for background work, and WaitTime for
	// how long in all.
	Waits    int64
	WaitTime time.Duration
	// Log describes the commit log; it is zero until the first commit.
	Log LogStats
}

// LevelStats describes a level of the tree.
type LevelStats struct {
	// Tables is how many there are, Runs how many of them may have to be
	// looked into for one key, and Bytes their size.
	Tables, Runs int
	Bytes        int64
}

// workCounts is what background work has done.
type workCounts struct {
	flushes, compactions         atomic.Int64
	flushedBytes, compactedBytes atomic.Int64
	flushTime, compactTime       atomic.Int64
	collections, collectedBytes  atomic.Int64
	collectTime                  atomic.Int64
}

func (w *workCounts) flushed(r compact.Result, valueBytes int64, took time.Duration) {
	w.flushes.Add(1)
	w.flushedBytes.Add(r.BytesWritten + valueBytes)
	w.flushTime.Add(int64(took))
}

func (w *workCounts) compacted(r compact.Result, took time.Duration) {
	w.compactions.Add(1)
	w.compactedBytes.Add(r.BytesWritten)
	w.compactTime.Add(int64(took))
}

// collected counts a value file that made, or nothing, has replaced.
func (w *workCounts) collected(made *manifest.ValueFile, took time.Duration) {
	w.collections.Add(1)
	if made != nil {
		w.collectedBytes.Add(made.Size)
	}
	w.collectTime.Add(int64(took))
}

// LogStats describes the commit log.
type LogStats = log.Stats

// Stats returns how the database is doing. It is cheap.
func (d *DB) Stats() Stats {
	c := &d.commits.counts
	s := Stats{
		OldestVersion: uint64(d.readers.Oldest(&d.visible)),
		Version:       d.visible.Load(),
		Commits:       c.commits.Load(),
		Conflicts:     c.conflicts.Load(),
		Groups:        c.groups.Load(),
		Syncs:         c.syncs.Load(),
		Readers:       d.readers.Active(),
	}
	s.Flushes, s.FlushedBytes = d.work.flushes.Load(), d.work.flushedBytes.Load()
	s.Compactions, s.CompactedBytes = d.work.compactions.Load(), d.work.compactedBytes.Load()
	s.Collections, s.CollectedBytes = d.work.collections.Load(), d.work.collectedBytes.Load()
	s.Waits, s.WaitTime = d.admission.waits.Load(), time.Duration(d.admission.waited.Load())
	s.addTables(d.view.Load().tree.Version)
	if l := d.log.Load(); l != nil {
		s.Log = l.Stats()
	}
	slot, err := d.acquire()
	if err != nil {
		return s // closed: the memory is gone or going
	}
	defer d.release(slot)
	for _, t := range d.view.Load().tables {
		s.Memtables++
		s.MemtableBytes += t.Bytes()
		s.MemtableEntries += int64(t.Len())
	}
	return s
}

// addTables describes the tables and value files of v.
func (s *Stats) addTables(v *manifest.Version) {
	for _, f := range v.Values {
		s.Values++
		s.ValueBytes += f.Size
		s.ValueGarbage += int64(f.Bytes - min(f.Live, f.Bytes))
	}
	for i, tables := range v.Levels {
		l := &s.Levels[i]
		l.Tables, l.Runs = len(tables), min(len(tables), 1)
		for j, t := range tables {
			l.Bytes += t.Size
			if j > 0 && t.Run != tables[j-1].Run {
				l.Runs++
			}
		}
		s.Tables += l.Tables
		s.TableBytes += l.Bytes
	}
}
