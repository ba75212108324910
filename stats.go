package stoat

import (
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/histogram"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/vfs"
)

// Stats says how a database is doing. Counts are since Open.
type Stats struct {
	// Version is the newest version that readers see.
	Version uint64
	// Commits counts transactions that wrote, Conflicts those that met
	// ErrConflict, Groups how many writes to the log carried them, and Syncs
	// how many of those were synced.
	Commits, Conflicts, Groups, Syncs uint64
	// CommittedBytes is the size of the keys and values that were committed.
	CommittedBytes int64
	// Readers is how many snapshots are held: by open transactions, by commits that
	// look for conflicts, and by work that reads a state of the database to its end.
	// A commit of a transaction that has read nothing holds none. OldestVersion is
	// the oldest among them, or Version. OldestAge is for how long at least there has
	// been a newer version, so that something may be kept for the oldest alone; it is
	// told at most an eighth and a second too short, and is 0 where there is none.
	Readers       int
	OldestVersion uint64
	OldestAge     time.Duration
	// Memtables is how many there are, MemtableBytes the memory they hold, and
	// MemtableEntries the versions in them.
	Memtables       int
	MemtableBytes   int64
	MemtableEntries int64
	// Tables is how many there are, TableBytes their size, TableContent the
	// length of the keys and values in them before compression, and Levels what
	// each of the 7 levels holds of them.
	Tables                   int
	TableBytes, TableContent int64
	Levels                   [manifest.Levels]LevelStats
	// Flushes and Compactions count what was done in the background, and
	// FlushedBytes, CompactedBytes what they wrote.
	Flushes, Compactions         int64
	FlushedBytes, CompactedBytes int64
	// Values is how many value files there are, ValueBytes their size,
	// ValueContent the length of the values in them before compression,
	// ValueGarbage how much of the size nothing refers to, neither tables nor
	// memtables, Collections how many of them were rewritten or dropped, and
	// CollectedBytes what that wrote.
	Values                      int
	ValueBytes, ValueContent    int64
	ValueGarbage                int64
	Collections, CollectedBytes int64
	// ValueJumps is how often, in walks through the levels in the order of the
	// keys, the next value lies in another value file than the one before.
	// GatheredBytes is what was written of values for the sake of that order.
	ValueJumps, GatheredBytes int64
	// ApartBytes is what commits wrote straight into value files.
	ApartBytes int64
	// Waits is how often commits waited for background work, and WaitTime for
	// how long in all. Debt is how many bytes must be written until the tree is
	// in shape; commits are slowed down in proportion to it.
	Waits    int64
	WaitTime time.Duration
	Debt     int64
	// GarbageFiles is how many files were replaced and wait to be deleted until
	// the transactions that may read them have ended, GarbageBytes their size,
	// and GarbageAge for how long the oldest of these files has waited, which is less
	// than the age of the transaction it waits for. That is not all that is kept for
	// open transactions: SnapshotBytes is beside it, in files that are in use.
	GarbageFiles int
	GarbageBytes int64
	GarbageAge   time.Duration
	// SnapshotBytes is about how much of the tables and the value files is versions
	// of keys beyond NumVersions that merges and flushes have met and kept, for
	// transactions that were open then. When these have ended, the next merges drop
	// them. It is reckoned by the number of versions, as if all in a table were
	// equally long. Versions in different tables, which have not met yet, are not in
	// it.
	SnapshotBytes int64
	// DiskFree is how much of the disk is left, and DiskReserve how much of that is
	// kept for work that gives space back. DiskLow says that it is less: then
	// transactions that add anything are refused with ErrNoSpace, until deleting
	// or others have made room. Refused counts them.
	DiskFree, DiskReserve int64
	DiskLow               bool
	Refused               int64
	// Memory says where memory goes.
	Memory MemoryStats
	// Latencies tell how long things took.
	Latencies Latencies
	// EventsDropped counts events that Options.Events was too slow for.
	EventsDropped uint64
	// Log describes the commit log. Until the first commit it is what Open has
	// found of it.
	Log LogStats
}

// DiskBytes returns the size of the tables, the value files, the log and the
// garbage.
func (s Stats) DiskBytes() int64 {
	return s.TableBytes + s.ValueBytes + s.Log.BytesOnDisk + s.GarbageBytes
}

// WriteAmplification returns how many bytes were written for one that was
// committed, since Open. It is 0 before the first commit.
func (s Stats) WriteAmplification() float64 {
	if s.CommittedBytes == 0 {
		return 0
	}
	written := s.Log.BytesWritten + s.ApartBytes + s.FlushedBytes + s.CompactedBytes + s.CollectedBytes + s.GatheredBytes
	return float64(written) / float64(s.CommittedBytes)
}

// MemoryStats say where memory goes.
type MemoryStats struct {
	// Budget is Options.MemoryBudget.
	Budget int64
	// Memtables is what the memtables hold: outside the Go heap, but for range
	// deletions.
	Memtables int64
	// FlushedMemtables is what memtables hold that have been flushed and that
	// transactions still read.
	FlushedMemtables int64
	// Prepared is what else was taken for writes outside the Go heap: what
	// memtables have not filled yet, what is kept for the next of them, and the
	// writes of large transactions until they are committed.
	Prepared int64
	// OffHeap is all that was taken outside the Go heap, by all databases of
	// the process: memtables, those that readers still hold, the writes of
	// large transactions, what is kept of those for the next ones, and decoded
	// blocks.
	OffHeap int64
	// FileHeap is about what the open tables and value files take of the Go
	// heap: what of them has been verified, bounds, filters, range deletions.
	FileHeap int64
	// Decoded is what decoded blocks of compressed tables take outside the Go
	// heap, an eighth of the budget at most. DecodedHits and DecodedMisses count
	// reads that found a block there, and that did not, since Open.
	Decoded                    int64
	DecodedHits, DecodedMisses uint64
	// TablePages and ValuePages are about how much of the mapped files is in
	// memory: what has been read since it was last given back. The kernel may
	// have taken some of it, and takes more when others need it.
	TablePages, ValuePages int64
	// OpenTables and OpenValues count the files that are mapped.
	OpenTables, OpenValues int
	// GivenBack is how many bytes of mapped pages have been given back since
	// Open.
	GivenBack int64
}

// Total returns what is held beside mapped pages, and with them.
func (m MemoryStats) Total() (own, all int64) {
	own = m.Memtables + m.FlushedMemtables + m.Prepared + m.FileHeap + m.Decoded
	return own, own + m.TablePages + m.ValuePages
}

// Latencies tell how long things took since Open.
type Latencies struct {
	// Commit is that of calls of Commit and Update that wrote. Of commits that
	// did not wait for the device only some are measured, and count for more.
	// CommitAsync is not in it.
	Commit LatencyStats
	// Sync is that of the log's syncs, which groups of commits share.
	Sync LatencyStats
	// Flush, Compaction and Collection are those of background jobs.
	Flush, Compaction, Collection LatencyStats
}

// LatencyStats tell how long something took each time. Their fields are
//
//	Count                uint64        // how many times
//	Total, Max           time.Duration // their sum, and the longest
//	P50, P90, P99, P999  time.Duration // quantiles, at most an eighth too high
//
// and their method Mean returns the mean.
type LatencyStats = histogram.Summary

// LevelStats describes a level of the tree.
type LevelStats struct {
	// Tables is how many there are, Runs how many of them may have to be
	// looked into for one key, and Bytes their size.
	Tables, Runs int
	Bytes        int64
}

// sampleBuffered is of how many commits that do not wait for the device one is
// measured: to look at the clock twice costs as much as a tenth of the commit.
const sampleBuffered = 16

// committed counts a commit that took so long.
func (d *DB) committed(took time.Duration, sync bool) {
	of := uint64(sampleBuffered)
	if sync {
		of = 1
	}
	d.commitTime.AddMany(took, of)
}

// LogStats describes the commit log. Its fields are
//
//	Segments, FreeFiles int   // files that are needed, and that are kept to be used again
//	BytesOnDisk         int64 // the size of all of these
//	BytesWritten        int64 // since Open
//	Syncs, Rotations    int64 // syncs of files in use, and moves to another one
type LogStats = log.Stats

// Stats returns how the database is doing. It is cheap: it makes no system call, and
// decides nothing.
func (d *DB) Stats() Stats {
	c, j, g := &d.commits.Counts, &d.jobs.Counts, &d.collector.Counts
	s := Stats{
		OldestVersion:  uint64(d.store.OldestSnapshot()),
		Version:        uint64(d.store.Visible()),
		Commits:        c.Commits.Load(),
		Conflicts:      c.Conflicts.Load(),
		Groups:         c.Groups.Load(),
		Syncs:          c.Syncs.Load(),
		CommittedBytes: c.Bytes.Load(),
		ApartBytes:     c.ApartBytes.Load(),
		Readers:        d.store.Readers(),
		Flushes:        j.Flushes.Load(),
		FlushedBytes:   j.FlushedBytes.Load(),
		Compactions:    j.Compactions.Load(),
		CompactedBytes: j.CompactedBytes.Load(),
		GatheredBytes:  j.GatheredBytes.Load(),
		Collections:    g.Collections.Load(),
		CollectedBytes: g.CollectedBytes.Load(),
		Debt:           d.throttle.Debt(),
		EventsDropped:  d.events.lost(),
		Log:            d.commits.LogStats(),
	}
	s.Latencies = Latencies{Commit: d.commitTime.Summary(), Sync: c.SyncTime.Summary(),
		Flush: j.FlushTime.Summary(), Compaction: j.CompactTime.Summary(), Collection: g.Time.Summary()}
	s.Waits, s.WaitTime = d.throttle.Waits()
	s.OldestAge = d.store.OutdatedFor(base.SeqNum(s.OldestVersion))
	state := d.store.State()
	s.addTables(state.Version, d.opts.NumVersions)
	use := d.jobs.Garbage(state.Version, state.FlushedSeq)
	s.ValueGarbage = int64(use.Garbage + use.Stuck)
	s.GarbageFiles, s.GarbageBytes, s.GarbageAge = d.store.ObsoleteFiles()
	s.DiskFree, s.DiskReserve, s.DiskLow, s.Refused = d.space.Usage()
	slot, err := d.store.Acquire()
	if err != nil {
		return s // closed: the memory is gone or going
	}
	defer d.store.Release(slot)
	for _, t := range d.store.Pin(slot).Memtables {
		s.Memtables++
		s.MemtableBytes += t.Bytes()
		s.MemtableEntries += int64(t.Len())
	}
	s.Memory = d.memoryStats(s.MemtableBytes)
	return s
}

// addTables describes the tables and value files of v, of a database that keeps so
// many versions of a key.
func (s *Stats) addTables(v *manifest.Version, versions int) {
	for _, f := range v.Values {
		s.Values++
		s.ValueBytes += f.Size
		s.ValueContent += int64(f.ValueBytes)
	}
	for i, tables := range v.Levels {
		l := &s.Levels[i]
		l.Tables, l.Runs = len(tables), min(len(tables), 1)
		for j, t := range tables {
			l.Bytes += t.Size
			s.ValueJumps += int64(t.Jumps)
			s.TableContent += int64(t.KeyBytes + t.ValueBytes)
			if surplus := compact.Surplus(t, versions); surplus > 0 {
				part := float64(surplus) / float64(t.Entries)
				s.SnapshotBytes += int64(part * float64(uint64(t.Size)+t.Referred()))
			}
			if j > 0 && t.Run != tables[j-1].Run {
				l.Runs++
			}
		}
		s.Tables += l.Tables
		s.TableBytes += l.Bytes
	}
}

// memoryStats returns where memory goes. The caller holds a slot of a reader.
func (d *DB) memoryStats(memtables int64) MemoryStats {
	m := MemoryStats{Budget: d.opts.MemoryBudget, Memtables: memtables, OffHeap: vfs.AllocatedBytes()}
	m.FileHeap = d.store.View().Tree.FilterBytes()
	for _, r := range d.store.Files().Residents(nil) {
		gauge := r.Gauge()
		if gauge == nil {
			continue
		}
		m.FileHeap += r.HeapBytes()
		if r.Kind() == residency.Tables {
			m.OpenTables++
			m.TablePages += gauge.Bytes()
		} else {
			m.OpenValues++
			m.ValuePages += gauge.Bytes()
		}
	}
	m.FlushedMemtables = d.store.ObsoleteMemtableBytes()
	m.Prepared = max(0, d.store.Memory.Taken()-m.Memtables-m.FlushedMemtables)
	decoded := d.decoded.Stats()
	m.Decoded, m.DecodedHits, m.DecodedMisses = decoded.Bytes, decoded.Hits, decoded.Misses
	m.GivenBack = d.governor.GaveBack()
	return m
}
