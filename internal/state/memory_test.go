package state

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/memtable"
)

// countedMemory counts the bytes that are out.
type countedMemory struct{ out int }

func (m *countedMemory) Alloc(n int) ([]byte, error) {
	m.out += n
	return memtable.Heap().Alloc(n)
}

func (m *countedMemory) Free(b []byte) { m.out -= len(b) }

// The Go runtime may drop a write set from its pool at any time. Nothing would free
// what such a set holds outside the Go heap.
func TestMemory_AWriteSetAtRestHoldsNothingOutsideTheHeap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what              string
		entries, valueLen int
	}{
		{"one value that takes a chunk of the limit", 1, pendingOffHeap - 1000},
		{"one value in a chunk to itself", 1, 1 << 20},
		{"many values", 1 << 12, 1 << 10},
		{"an index below the limit", 1 << 13, 0},
		{"an index of the limit", 1 << 14, 0},
		{"an index of the limit and more", 1 << 15, 0},
		{"a large index", 1 << 16, 0},
	} {
		var outside countedMemory
		m := Memory{pending: memtable.NewPool(&outside, 0)}
		pending := m.NewPending()
		for i := range c.entries {
			key := fmt.Append(nil, i)
			if err := pending.Set(key, make([]byte, c.valueLen), base.Hash(key, 0), base.Meta{Kind: base.KindSet}, 0); err != nil {
				t.Fatal(err)
			}
		}
		if pending.Reset(); outside.out != 0 {
			t.Errorf("%s: %d bytes are still held", c.what, outside.out)
		}
		pending.Release()
	}
}

// The first chunk of a large memtable is that of a memtable of 4 MiB.
func TestMemory_AMemtableStartsWithASmallPartOfItsSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ size, chunk int64 }{{64 << 10, 8 << 10}, {600_000, 16 << 10}, {1 << 20, 16 << 10}, {4 << 20, 64 << 10}, {64 << 20, 64 << 10}} {
		var m Memory
		m.init(c.size)
		table := m.NewTable(0)
		if err := table.Set([]byte("k"), nil, base.Hash([]byte("k"), 0), base.Meta{Kind: base.KindSet}, 1); err != nil {
			t.Fatal(err)
		}
		const order = 512 // bytes of the insertion order
		if got := table.Bytes(); got != c.chunk+order {
			t.Errorf("of %d bytes: %d after the first write, want %d", c.size, got, c.chunk+order)
		}
		taken := m.Taken()
		table.Release()
		if c.size >= taken && m.Kept() != taken {
			t.Errorf("of %d bytes: %d of %d are kept for the next one", c.size, m.Kept(), taken)
		}
		if m.Trim(); m.Taken() != 0 || m.Kept() != 0 {
			t.Errorf("of %d bytes: %d are still taken, %d of them kept", c.size, m.Taken(), m.Kept())
		}
	}
}
