package memtable

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/stoatdb/stoat/internal/invariant"
)

// Memory provides the blocks that tables are made of. Many goroutines may use it
// at once.
type Memory interface {
	// Alloc returns n bytes, aligned to 8, with arbitrary contents.
	Alloc(n int) ([]byte, error)
	// Free takes back a block that Alloc returned, in its full length.
	Free(b []byte)
}

// Heap returns memory on the Go heap. It suits the write buffers of small
// transactions, which are pooled and cheap to drop.
func Heap() Memory { return heap{} }

type heap struct{}

// Alloc allocates words, because the runtime aligns small byte slices only to
// one byte.
func (heap) Alloc(n int) ([]byte, error) {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n), nil
}

func (heap) Free([]byte) {}

// Tiered returns memory that takes blocks shorter than limit bytes from small
// and all others from large.
func Tiered(small, large Memory, limit int) Memory { return tiered{small, large, limit} }

type tiered struct {
	small, large Memory
	limit        int
}

func (m tiered) Alloc(n int) ([]byte, error) {
	if n < m.limit {
		return m.small.Alloc(n)
	}
	return m.large.Alloc(n)
}

func (m tiered) Free(b []byte) {
	if len(b) < m.limit {
		m.small.Free(b)
		return
	}
	m.large.Free(b)
}

// counted counts the bytes that one table holds.
type counted struct {
	mem  Memory
	held atomic.Int64
}

func (c *counted) alloc(n int) ([]byte, error) {
	b, err := c.mem.Alloc(n)
	if err != nil {
		return nil, fmt.Errorf("memtable: allocate %d bytes: %w", n, err)
	}
	invariant.Check(len(b) == n, "asked for a block of %d bytes and got %d", n, len(b))
	invariant.Check(uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 == 0, "a block is not aligned to 8")
	c.held.Add(int64(n))
	return b, nil
}

// free gives a block back. With invariants enabled it overwrites the block
// first.
func (c *counted) free(b []byte) {
	invariant.Mangle(b)
	c.held.Add(-int64(len(b)))
	c.mem.Free(b)
}
