package table

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/residency"
)

// keepAlign is a multiple of the page size of every system, in bytes.
const keepAlign = 64 << 10

// Gauge tells approximately how much of the table is in memory, and whether the
// table is in use.
func (r *Reader) Gauge() *residency.Gauge { return &r.gauge }

// DropPages returns the memory of the table's pages to the system. Later reads fetch
// and verify them again. Borrowed values stay valid. The directory and the other
// sections stay: every read needs them, and no read fetches them.
func (r *Reader) DropPages() error {
	r.forget()
	err := r.m.DontNeed(0, r.sumsOff()&^(keepAlign-1))
	// A reader may have verified pages before they were dropped. It may set its mark only
	// later. mark then sees the higher count, and clears all marks.
	r.drops.Add(1)
	r.forget()
	return err
}

// mark remembers in verified that a part was verified. drops is the count of drops from before
// the reader looked at the bytes.
func (r *Reader) mark(verified bitmap, i int, drops uint64) {
	verified.set(i)
	if r.drops.Load() != drops {
		verified.clear() // as DropPages did before this mark was set
	}
}

// forget makes later reads verify all pages again.
func (r *Reader) forget() {
	r.keysOK.clear()
	r.valsOK.clear()
	r.pagesOK.clear()
	r.gauge.Clear()
	r.misses.Store(0)
	r.missed.Store(false)
}

// populate brings [off, off+n) of the file into memory.
func (r *Reader) populate(off, n int64) error {
	brought, err := r.m.Populate(off, n)
	r.gauge.Add(brought, r.sumsOff())
	return err
}

// KeepUsed asks the system to evict pages of the table in use later than others, until
// DropPages.
func (r *Reader) KeepUsed() error { return r.m.KeepUsed() }

// Trim gives the memory of the sealed bytes of a sealed table back.
func (r *Reader) Trim() error {
	if r.sealed == nil {
		return nil
	}
	return r.sealed.Trim()
}

// PageBytes returns how many bytes of the table's pages are in memory.
func (r *Reader) PageBytes() int64 {
	if r.sealed != nil {
		return r.sealed.Used()
	}
	return r.gauge.Bytes()
}

// HeapBytes returns the approximate size of the reader on the Go heap.
func (r *Reader) HeapBytes() int64 {
	words := len(r.keysOK) + len(r.valsOK) + len(r.pagesOK)
	heap := int64(readerBytes + 8*words + 8*len(r.tops) + len(r.first) + len(base.StoredBound(r.props.Largest)))
	heap += r.deletions.Bytes() + r.delsLen // the keys lie in a copy of that part of the file
	if r.sealed != nil {
		heap += r.sealed.HeapBytes()
	}
	return heap
}

// readerBytes is the approximate heap size of a reader of an empty table.
const readerBytes = 1 << 10
