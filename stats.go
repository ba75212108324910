package stoat

import (
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/histogram"
)

// Stats describes the state of a database. Counts are since Open; sizes are in
// bytes.
type Stats struct {
	// Version is the newest version that readers see.
	Version uint64
	// Commits counts transactions that wrote. Conflicts counts the transactions
	// that got ErrConflict. Groups counts the writes to the log that carried the commits.
	// Syncs counts the syncs of groups and of calls of DB.Sync, which share them.
	Commits, Conflicts, Groups, Syncs uint64
	// CommittedBytes is the size of all committed keys and values.
	CommittedBytes int64
	// Readers counts the held snapshots: of open transactions, of commits that look
	// for conflicts, and of jobs that read one state of the database. A commit of a
	// transaction that has read nothing holds none.
	//
	// OldestVersion is the oldest of these snapshots, or Version if there is none.
	//
	// OldestAge is how long OldestVersion has been outdated. Files and memory may be
	// kept for that snapshot alone. OldestAge may be too low, by an eighth of itself
	// and a second. It is 0 if no commit came after the snapshot.
	Readers       int
	OldestVersion uint64
	OldestAge     time.Duration
	// Snapshots counts the snapshots of DB.Snapshot that are not released, and SnapshotAge is
	// the age of the oldest of them.
	Snapshots   int
	SnapshotAge time.Duration
	// Memtables counts the memtables, MemtableBytes their memory, and
	// MemtableEntries the versions in them.
	Memtables       int
	MemtableBytes   int64
	MemtableEntries int64
	// Tables counts the tables, and TableBytes is their size. TableContent is the
	// length of their keys and values before compression. Levels has the figures of
	// each of the 7 levels.
	Tables                   int
	TableBytes, TableContent int64
	Levels                   [7]LevelStats
	// Flushes and Compactions count the background jobs of these kinds.
	// FlushedBytes and CompactedBytes are what they wrote.
	Flushes, Compactions         int64
	FlushedBytes, CompactedBytes int64
	// Values counts the value files, and ValueBytes is their size. ValueContent is
	// the length of their values before compression. ValueGarbage is the part of
	// ValueBytes that neither tables nor memtables refer to.
	//
	// Collections counts the value files that the collector rewrote or dropped.
	// CollectedBytes is what it wrote.
	Values                      int
	ValueBytes, ValueContent    int64
	ValueGarbage                int64
	Collections, CollectedBytes int64
	// ValueJumps measures how scattered values are. It counts neighbouring keys of a
	// level whose values lie in different value files. GatheredBytes is what jobs
	// wrote to sort values by key.
	ValueJumps, GatheredBytes int64
	// ApartBytes is what commits wrote straight to value files, apart from the log.
	ApartBytes int64
	// Waits counts how often commits waited for background jobs. WaitTime is the sum of these
	// waits. Commits that share a sync wait as one, and count once. Debt is how many bytes
	// compactions must write until the tree is in shape. Commits slow down in proportion to
	// it. They also slow down when much of the values in value files is garbage. On a nearly
	// full disk a commit also waits for free space, up to a second, which Waits leaves out.
	Waits    int64
	WaitTime time.Duration
	Debt     int64
	// GarbageFiles counts obsolete files that cannot be deleted yet, because open
	// transactions may read them. GarbageBytes is their size. GarbageAge is how
	// long the oldest of them has been waiting, which is less than the age of the
	// transaction that it waits for. SnapshotBytes has what else the database keeps
	// for open transactions.
	GarbageFiles int
	GarbageBytes int64
	GarbageAge   time.Duration
	// SnapshotBytes estimates the size of versions beyond NumVersions in tables and
	// value files that are in use. Flushes and compactions kept these versions for
	// transactions that were open then. The next compactions after the end of those
	// transactions drop them.
	//
	// The estimate goes by the number of versions, as if all versions in a table
	// had the same length. It leaves out versions in different tables that no
	// compaction has brought together yet.
	SnapshotBytes int64
	// DiskFree is the free space of the disk. DiskReserve is reserved for jobs that free
	// space. DiskLow says that less than DiskReserve is free. Commits that add anything
	// then return ErrNoSpace until the disk has enough space. Refused counts those
	// commits. A read-only database leaves all four 0.
	DiskFree, DiskReserve int64
	DiskLow               bool
	Refused               int64
	// Memory has the memory of the database, by use.
	Memory MemoryStats
	// Latencies has the durations of commits, syncs and background jobs.
	Latencies Latencies
	// EventsDropped counts events that were dropped because Options.Events was too
	// slow.
	EventsDropped uint64
	// Log describes the log. Before the first commit it describes the log that Open
	// found.
	Log LogStats
}

// DiskBytes returns the size of the tables, the value files, the log and the
// obsolete files.
func (s Stats) DiskBytes() int64 {
	return s.TableBytes + s.ValueBytes + s.Log.BytesOnDisk + s.GarbageBytes
}

// WriteAmplification returns how many bytes the database wrote for one committed
// byte, since Open. It is 0 before the first commit.
func (s Stats) WriteAmplification() float64 {
	if s.CommittedBytes == 0 {
		return 0
	}
	written := s.Log.BytesWritten + s.ApartBytes + s.FlushedBytes + s.CompactedBytes + s.CollectedBytes + s.GatheredBytes
	return float64(written) / float64(s.CommittedBytes)
}

// MemoryStats has the memory of a database by use, in bytes.
type MemoryStats struct {
	// Budget is Options.MemoryBudget.
	Budget int64
	// Memtables is the memory of the memtables. It lies outside the Go heap, except
	// range tombstones.
	Memtables int64
	// FlushedMemtables is the memory of flushed memtables that transactions still
	// read.
	FlushedMemtables int64
	// Prepared is other memory for writes outside the Go heap:
	//
	//   - what memtables have not filled yet;
	//   - what is kept for the next memtables;
	//   - the writes of large open transactions.
	Prepared int64
	// OffHeap is all memory outside the Go heap, of all databases of the process:
	//
	//   - memtables, including old ones that transactions still read;
	//   - the writes of large open transactions, and what is kept for the next ones;
	//   - decoded blocks.
	//
	// It does not include decrypted pages.
	OffHeap int64
	// FileHeap estimates the Go heap of tables and value files. All tables have their bounds
	// there. Open files add directories, filters, range tombstones, and what has been verified.
	FileHeap int64
	// Decoded is the memory of decoded blocks of compressed tables, outside the Go
	// heap. It is an eighth of the budget at most. DecodedHits counts the reads
	// since Open that found their block there, and DecodedMisses the others.
	Decoded                    int64
	DecodedHits, DecodedMisses uint64
	// TablePages and ValuePages estimate the mapped pages in memory. They count the
	// pages that were read and not released since. The kernel may have reclaimed some of
	// them, and reclaims more on demand. In an encrypted database they are the
	// decrypted pages, which only the database releases.
	TablePages, ValuePages int64
	// OpenTables and OpenValues count the mapped tables and value files.
	OpenTables, OpenValues int
	// GivenBack is how many bytes of mapped pages the database has released since Open.
	GivenBack int64
}

// Total returns the memory without mapped pages as own, and with them as all.
func (m MemoryStats) Total() (own, all int64) {
	own = m.Memtables + m.FlushedMemtables + m.Prepared + m.FileHeap + m.Decoded
	return own, own + m.TablePages + m.ValuePages
}

// Latencies has the distributions of durations since Open.
type Latencies struct {
	// Commit is the duration of Commit and Update calls that wrote. Of commits that
	// did not wait for the device, the database measures only some, and gives those
	// more weight. CommitAsync is not included.
	Commit LatencyStats
	// Sync is the duration of syncs of the log, which groups of commits share.
	Sync LatencyStats
	// Flush, Compaction and Collection are the durations of background jobs.
	Flush, Compaction, Collection LatencyStats
}

// LatencyStats is a distribution of durations.
type LatencyStats struct {
	// Count is the number of durations, Total their sum and Max the longest.
	Count      uint64
	Total, Max time.Duration
	// P50, P90, P99 and P999 are quantiles: 50, 90, 99 and 99.9 percent of the
	// durations did not exceed them. A quantile is at most an eighth too high.
	P50, P90, P99, P999 time.Duration
}

// Mean returns the mean duration, or 0 if there is none.
func (s LatencyStats) Mean() time.Duration { return histogram.Summary(s).Mean() }

// LevelStats describes a level of the tree.
type LevelStats struct {
	// Tables counts the tables. Runs counts the runs: a lookup of one key may read
	// one table of each run. Bytes is the size of the tables.
	Tables, Runs int
	Bytes        int64
}

// LogStats describes the write-ahead log.
type LogStats struct {
	// Segments counts the files that are needed, and FreeFiles the spare files for
	// reuse. BytesOnDisk is the size of all these files.
	Segments, FreeFiles int
	BytesOnDisk         int64
	// BytesWritten is how much was written to the log since Open. Syncs counts the
	// syncs of files in use. Rotations counts the moves to another file.
	BytesWritten, Syncs, Rotations int64
}

// Stats returns the state of the database. It is cheap: it makes no system call and
// starts no job.
func (d *DB) Stats() Stats {
	c, j, g := &d.engine.Commits.Counts, &d.engine.Jobs.Counts, &d.engine.Collector.Counts
	s := Stats{
		OldestVersion:  uint64(d.engine.Store.OldestSnapshot()),
		Version:        uint64(d.engine.Store.Visible()),
		Commits:        c.Commits.Load(),
		Conflicts:      c.Conflicts.Load(),
		Groups:         c.Groups.Load(),
		Syncs:          c.Syncs.Load(),
		CommittedBytes: c.Bytes.Load(),
		ApartBytes:     c.ApartBytes.Load(),
		Readers:        d.engine.Store.Readers(),
		Flushes:        j.Flushes.Load(),
		FlushedBytes:   j.FlushedBytes.Load(),
		Compactions:    j.Compactions.Load(),
		CompactedBytes: j.CompactedBytes.Load(),
		GatheredBytes:  j.GatheredBytes.Load(),
		Collections:    g.Collections.Load(),
		CollectedBytes: g.CollectedBytes.Load(),
		Debt:           d.engine.Throttle.Debt(),
		EventsDropped:  d.reports.queue.Lost(),
		Log:            LogStats(d.engine.Commits.LogStats()),
	}
	s.Latencies = Latencies{Commit: LatencyStats(d.engine.Transactions.CommitTime.Summary()), Sync: LatencyStats(c.SyncTime.Summary()),
		Flush: LatencyStats(j.FlushTime.Summary()), Compaction: LatencyStats(j.CompactTime.Summary()),
		Collection: LatencyStats(g.Time.Summary())}
	s.Waits, s.WaitTime = d.engine.Throttle.Waits()
	s.OldestAge = d.engine.Store.OutdatedFor(base.SeqNum(s.OldestVersion))
	s.Snapshots, s.SnapshotAge = d.engine.Transactions.OpenSnapshots()
	state := d.engine.Store.State()
	files := d.engine.Tree(state.Version)
	s.Tables, s.TableBytes, s.TableContent = files.Tables, files.TableBytes, files.TableContent
	s.Values, s.ValueBytes, s.ValueContent = files.Values, files.ValueBytes, files.ValueContent
	s.ValueJumps, s.SnapshotBytes = files.ValueJumps, files.SnapshotBytes
	for i, l := range files.Levels {
		s.Levels[i] = LevelStats(l)
	}
	use := d.engine.Jobs.Garbage(state.Version, state.FlushedSeq)
	s.ValueGarbage = int64(use.Garbage + use.Stuck)
	s.GarbageFiles, s.GarbageBytes, s.GarbageAge = d.engine.Store.ObsoleteFiles()
	if !d.opts.ReadOnly {
		s.DiskFree, s.DiskReserve, s.DiskLow, s.Refused = d.engine.Space.Usage()
	}
	slot, v, err := d.engine.Store.HoldView()
	if err != nil {
		return s // closed: the memory is released, or will be
	}
	defer d.engine.Store.Release(slot)
	for _, t := range v.Memtables {
		s.Memtables++
		s.MemtableBytes += t.Bytes()
		s.MemtableEntries += int64(t.Len())
	}
	s.Memory = MemoryStats(d.engine.Memory(s.MemtableBytes))
	return s
}
