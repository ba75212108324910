package table

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/residency"
)

// keepAlign is a multiple of the page size of any system.
const keepAlign = 64 << 10

// Gauge tells about how much of the table is in memory, and whether it is in
// use.
func (r *Reader) Gauge() *residency.Gauge { return &r.gauge }

// GiveBack returns the memory of the table's pages to the system. What is
// read later is fetched and verified again; what was borrowed before stays
// valid. The directory and its like stay, which every read needs and nobody
// fetches.
func (r *Reader) GiveBack() error {
	r.keysOK.clear()
	r.valsOK.clear()
	r.pagesOK.clear()
	r.gauge.Clear()
	return r.m.DontNeed(0, r.sumsOff()&^(keepAlign-1))
}

// populate brings [off, off+n) of the file into memory.
func (r *Reader) populate(off, n int64) error {
	brought, err := r.m.Populate(off, n)
	r.gauge.Add(brought, r.sumsOff())
	return err
}

// HeapBytes is about how much of the Go heap the reader takes.
func (r *Reader) HeapBytes() int64 {
	words := len(r.keysOK) + len(r.valsOK) + len(r.pagesOK)
	return int64(readerBytes + 8*words + len(r.first) + len(base.StoredBound(r.props.Largest)))
}

// readerBytes is about what a reader of an empty table takes.
const readerBytes = 1 << 10
