package stoat

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/tree"
)

// A view is the structures that hold the data: memtables, the newest first,
// and behind them the tables of the tree. It is immutable; a change makes
// another one (see DB.change), and what that one lacks is given back once
// nobody reads the old one (see garbage).
type view struct {
	tables []*memtable.Table // tables[0] takes the writes
	// logFrom tells for each memtable the segment of the log before which
	// nothing of it, nor of a newer one, lies; its zero value is before
	// everything that this opening of the database has written.
	logFrom []base.SegmentRef
	tree    *tree.View
}

// change replaces the view with what next makes of it.
func (d *DB) change(next func(v view) view) {
	d.changing.Lock()
	defer d.changing.Unlock()
	v := next(*d.view.Load())
	d.view.Store(&v)
}

// add puts memtables before those that there are, the newest first. What is
// written to the log from now on lies from segment from on.
func (d *DB) add(from base.SegmentRef, newer ...*memtable.Table) {
	d.change(func(v view) view {
		starts := slices.Repeat([]base.SegmentRef{from}, len(newer))
		v.tables, v.logFrom = append(newer, v.tables...), append(starts, v.logFrom...)
		return v
	})
}

// insert puts a memtable behind the one that takes the writes, which is empty.
func (d *DB) insert(from base.SegmentRef, t *memtable.Table) {
	d.change(func(v view) view {
		v.tables = slices.Insert(slices.Clone(v.tables), 1, t)
		v.logFrom = slices.Insert(slices.Clone(v.logFrom), 1, from)
		v.logFrom[0] = from
		return v
	})
}

// waiting returns how many memtables wait to be flushed, and their size.
func (v *view) waiting() (n int, bytes int64) {
	return len(v.tables) - 1, bytesOf(v.tables[1:])
}

// bytesOf returns the memory that memtables hold.
func bytesOf(tables []*memtable.Table) (bytes int64) {
	for _, t := range tables {
		bytes += t.Bytes()
	}
	return bytes
}
