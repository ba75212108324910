package stoat

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

// A write set that waits for its next transaction may be forgotten by the pool
// it is in, and nobody would free what it holds outside the Go heap.
func TestAWriteSetAtRestHoldsNothingOutsideTheHeap(t *testing.T) {
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
		m := tableMemory{pending: memtable.NewPool(&outside, 0)}
		pending := m.newPending()
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

func TestMemoryInAllHasWhatIsPendingAndWhatIsKeptForMemtables(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	tx, err := db.Begin(ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 512)
	want := func(when string, least int64) {
		t.Helper()
		m := db.Stats().Memory
		if own, _ := m.Total(); own < least || own != m.Memtables+m.FlushedMemtables+m.Prepared+m.FileHeap+m.Decoded {
			t.Errorf("%s: %d bytes in all, of at least %d: %+v", when, own, least, m)
		}
	}
	for i := range 4000 {
		if err := tx.Set(fmt.Append(nil, i), value); err != nil {
			t.Fatal(err)
		}
	}
	want("before the commit", 4000*512)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	want("after the commit", 4000*512)
	if err := db.rotate(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.flushNext(); err != nil {
		t.Fatal(err)
	}
	kept := db.memory.idle()
	if kept == 0 {
		t.Fatal("nothing is kept for the next memtable")
	}
	want("after the flush", kept)
	db.memory.rest()
	if m := db.Stats().Memory; m.Prepared >= kept {
		t.Errorf("%d bytes are prepared when %d have been given back", m.Prepared, kept)
	}
}
