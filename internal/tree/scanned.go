package tree

import (
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
)

const (
	// scanPasses is how often iterators must have read the entries of a table, on average,
	// for the table to count as scanned.
	scanPasses = 4
	// scanUnit is the number of entries that an iterator counts before it tells the table.
	// Iterators on several processors should seldom change the same memory.
	scanUnit = 256
)

// A tableHandle is the handle of a table. It counts what iterators read of the table.
type tableHandle struct {
	handle[table.Reader, *table.Reader]
	_ [cacheLine]byte // point reads use what lies before, and seldom what lies behind
	// scanned is the number of entries that iterators have read together with their values.
	scanned atomic.Uint64
	least   uint64 // for the table to count as scanned
}

func newTableHandle(m *manifest.Table) *tableHandle {
	return &tableHandle{least: scanPasses * m.Entries}
}

// scan adds n entries. It reports whether the table counts as scanned from now on.
func (h *tableHandle) scan(n uint64) bool {
	sum := h.scanned.Add(n)
	return sum >= h.least && sum-n < h.least
}

// Scanned reports whether iterators have read the entries of a table several times over
// since the database was opened. What they read of the tables before it counts, too; see
// Inherit.
func (f *Files) Scanned(m *manifest.Table) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.tables[m.Num]
	return h != nil && h.scanned.Load() >= h.least
}

// Inherit counts for new tables what iterators have read of the old ones, whose place they
// take. The caller calls it before Drop.
func (f *Files) Inherit(tables []*manifest.Table, old [][]*manifest.Table) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var scanned, entries float64
	for _, level := range old {
		for _, m := range level {
			entries += float64(m.Entries)
			if h := f.tables[m.Num]; h != nil {
				scanned += float64(h.scanned.Load())
			}
		}
	}
	if scanned == 0 || entries == 0 {
		return
	}
	passes := min(scanned/entries, scanPasses)
	for _, m := range tables {
		if h := f.tables[m.Num]; h != nil {
			h.scan(uint64(passes * float64(m.Entries)))
		}
	}
}

// A scanCount counts the entries that an iterator reads of one table after another.
type scanCount struct {
	of      *tableHandle
	entries uint64
}

// add adds n entries of a table.
func (c *scanCount) add(f *Files, of *tableHandle, n int) {
	if c.of != of {
		c.tell(f)
		c.of = of
	}
	if c.entries += uint64(n); c.entries >= scanUnit {
		c.tell(f)
	}
}

// tell tells the table how many of its entries were read.
func (c *scanCount) tell(f *Files) {
	if c.entries > 0 && c.of.scan(c.entries) && f.opts.Scanned != nil {
		f.opts.Scanned()
	}
	c.entries = 0
}
