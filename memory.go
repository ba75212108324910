package stoat

import (
	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/vfs"
)

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
