package stoat

import (
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/vfs"
)

// A tableMemory is where memtables and the writes of transactions get their
// memory outside the Go heap. It keeps some of what they give back for those
// that follow, until the database is left alone: to get pages from the system
// and to return them takes a large transaction longer than to fill them.
type tableMemory struct {
	system          offHeap
	tables, pending *memtable.Pool
}

const (
	// tableChunk is the memory a memtable starts with.
	tableChunk = 64 << 10
	// pendingChunk is the memory a transaction's writes start with.
	pendingChunk = 4 << 10
	// pendingOffHeap is the size from which pieces of that memory are taken
	// outside the Go heap. Smaller ones may be forgotten with a pooled write
	// set, so the garbage collector must own them.
	pendingOffHeap = 256 << 10
)

// init makes memory for memtables of size bytes. At most one memtable's worth
// is kept for memtables and half as much for transactions.
func (m *tableMemory) init(size int64) {
	m.tables = memtable.NewPool(&m.system, size)
	m.pending = memtable.NewPool(&m.system, size/2)
}

// idle returns how many bytes are kept.
func (m *tableMemory) idle() int64 { return m.tables.Idle() + m.pending.Idle() }

// rest gives back what is kept, until somebody writes again.
func (m *tableMemory) rest() {
	m.tables.Rest()
	m.pending.Rest()
}

// close gives back what is kept, for good.
func (m *tableMemory) close() {
	m.tables.Close()
	m.pending.Close()
}

// newTable makes an empty memtable for about as many entries as hint.
func (m *tableMemory) newTable(hint int) *memtable.Table {
	return memtable.New(memtable.Options{Memory: memtable.Slabs(m.tables), ChunkSize: tableChunk, SizeHint: hint})
}

// newPending returns an empty table for the writes of a transaction.
func (m *tableMemory) newPending() *memtable.Table {
	return memtable.New(memtable.Options{
		Memory:    memtable.Tiered(memtable.Heap(), m.pending, pendingOffHeap),
		ChunkSize: pendingChunk,
		Keep:      pendingOffHeap - 1, // what is kept may be forgotten
	})
}

// offHeap takes the memory of memtables from the system, and counts the bytes that
// are out.
type offHeap struct{ out atomic.Int64 }

func (m *offHeap) Alloc(n int) ([]byte, error) {
	b, err := vfs.Alloc(n)
	m.out.Add(int64(len(b)))
	return b, err
}

func (m *offHeap) Free(b []byte) {
	m.out.Add(-int64(len(b)))
	err := vfs.Free(b)
	invariant.Check(err == nil, "memory that was not allocated is freed: %v", err)
}
