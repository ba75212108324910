package state

import (
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/vfs"
)

// A Memory gives memtables and the writes of transactions their memory outside
// the Go heap. It keeps some of what they give back for the next ones, until the
// database is idle. Taking pages from the system and returning them costs a large
// transaction more than filling them.
type Memory struct {
	system          offHeap
	tables, pending *memtable.Pool
	tableChunk      int // what a memtable starts with, in bytes
}

const (
	// A memtable starts with 1/tablePart of its size, from tableChunkMin to tableChunkMax
	// bytes. A first chunk of its whole size would leave room for one commit only.
	tablePart     = 64
	tableChunkMin = 8 << 10
	tableChunkMax = 64 << 10
	// pendingChunk is the memory that the writes of a transaction start with, in
	// bytes.
	pendingChunk = 4 << 10
	// pendingOffHeap is the size in bytes from which blocks of that memory are taken
	// outside the Go heap. Smaller blocks may be forgotten with a pooled write set,
	// so the Go garbage collector must own them.
	pendingOffHeap = 64 << 10
)

// init makes memory for memtables of size bytes. At most one memtable's worth is
// kept for memtables and half as much for transactions.
func (m *Memory) init(size int64) {
	m.tables = memtable.NewPool(&m.system, size)
	m.pending = memtable.NewPool(&m.system, size/2)
	m.tableChunk = int(min(max(size/tablePart, tableChunkMin), tableChunkMax))
}

// Kept returns how many bytes are kept for later.
func (m *Memory) Kept() int64 { return m.tables.Idle() + m.pending.Idle() }

// Taken returns how many bytes were taken from the system.
func (m *Memory) Taken() int64 { return m.system.out.Load() }

// Trim gives back what is kept, until the next write.
func (m *Memory) Trim() {
	m.tables.Trim()
	m.pending.Trim()
}

// close gives back what is kept, for good.
func (m *Memory) close() {
	m.tables.Close()
	m.pending.Close()
}

// NewTable returns an empty memtable for about as many entries as hint.
func (m *Memory) NewTable(hint int) *memtable.Table {
	return memtable.New(memtable.Options{Memory: memtable.Slabs(m.tables), ChunkSize: m.tableChunk, SizeHint: hint})
}

// NewPending returns an empty table for the writes of a transaction.
func (m *Memory) NewPending() *memtable.Table {
	return memtable.New(memtable.Options{
		Memory:    memtable.Tiered(memtable.Heap(), m.pending, pendingOffHeap),
		ChunkSize: pendingChunk,
		Keep:      pendingOffHeap - 1, // larger blocks must not be forgotten
	})
}

// offHeap takes the memory of memtables from the system and counts it.
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
