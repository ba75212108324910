package stoat

import "github.com/stoatdb/stoat/internal/log"

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
	// Log describes the commit log; it is zero until the first commit.
	Log LogStats
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
