package memtable

import "github.com/stoatdb/stoat/internal/invariant"

// Reset empties the table for another use and keeps some memory, as Options.Keep
// says. No reader may hold any of its memory.
func (t *Table) Reset() {
	n := t.published.Load()
	if t.runs.current.Load() != nil {
		t.dropRuns()
	}
	t.dropStale()
	if ix := t.index.Load(); ix != nil {
		t.index.Store(nil)
		t.keepIndex(ix)
	}
	invariant.Check(n == 0 || t.keys > 0 || t.ranges.Load() != nil, "the table has %d entries and no key", n)
	t.dropRanges()
	t.arena.reset(t.opts.Keep)
	t.order.reset(t.opts.Keep)
	t.forget()
}

// Release frees all memory and leaves an empty table. No reader may hold any of
// its memory.
func (t *Table) Release() {
	t.dropRuns()
	t.dropStale()
	if ix := t.index.Load(); ix != nil {
		t.index.Store(nil)
		t.mem.free(ix.block)
	}
	if t.spare != nil {
		t.mem.free(t.spare.block)
		t.spare = nil
	}
	t.dropRanges()
	t.arena.release()
	t.order.reset(0)
	t.forget()
	invariant.Check(t.Bytes() == 0, "a released table holds %d bytes", t.Bytes())
}

func (t *Table) forget() {
	t.published.Store(0)
	// A load costs less than an atomic store, and most fields are unset.
	if t.stamp.Load() != 0 {
		t.stamp.Store(0)
	}
	if t.deletions.Load() != 0 {
		t.deletions.Store(0)
	}
	if t.partials.Load() != nil {
		t.partials.Store(nil)
		t.partialKeys.Store(0)
	}
	if t.shownData.Load() != 0 {
		t.shownData.Store(0)
	}
	t.last, t.keys, t.gone, t.dead, t.data = 0, 0, 0, 0, 0
}

// keepIndex keeps ix as the index of the table's next use, or frees it.
func (t *Table) keepIndex(ix *index) {
	if t.spare != nil {
		// The spare one was too small for this use.
		t.mem.free(t.spare.block)
		t.spare = nil
	}
	if len(ix.block) > t.opts.Keep {
		t.mem.free(ix.block)
		return
	}
	clear(ix.block)
	t.spare = ix
}

func (t *Table) dropStale() {
	if len(t.stale) == 0 {
		return
	}
	for i, ix := range t.stale {
		t.mem.free(ix.block)
		t.stale[i] = nil
	}
	t.stale = t.stale[:0]
}

// dropRuns frees all runs, including those that unclosed iterators hold.
func (t *Table) dropRuns() {
	if s := t.runs.current.Load(); s != nil {
		t.runs.current.Store(nil)
		t.dropSet(s)
	}
	t.runs.held.Lock()
	for i, r := range t.runs.held.blocks {
		t.mem.free(r.block)
		r.block, r.items, r.fences = nil, nil, nil
		t.runs.held.blocks[i] = nil
	}
	t.runs.held.blocks = t.runs.held.blocks[:0]
	t.runs.held.Unlock()
	if t.runs.scratch != nil {
		t.mem.free(t.runs.scratch)
		t.runs.scratch = nil
	}
}
