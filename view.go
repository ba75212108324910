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
	// born tells for each memtable the turn of the first view with it.
	born []uint64
	tree *tree.View
	mark *mark // what readers of it tell
}

// newView returns the first view.
func newView(active *memtable.Table, t *tree.View, files base.FileNum) *view {
	return &view{
		tables:  []*memtable.Table{active},
		logFrom: make([]base.SegmentRef, 1),
		born:    make([]uint64, 1),
		tree:    t,
		mark:    &mark{files: files},
	}
}

// change replaces the view with what next makes of it.
func (d *DB) change(next func(v view) view) {
	d.changing.Lock()
	defer d.changing.Unlock()
	turn := d.view.Load().mark.turn + 1
	v := next(*d.view.Load())
	// The files that next has brought got their numbers long before.
	v.mark = &mark{turn: turn, files: base.FileNum(d.nextFile.Load())}
	d.view.Store(&v)
}

// add puts memtables before those that there are, the newest first. What is
// written to the log from now on lies from segment from on.
func (d *DB) add(from base.SegmentRef, newer ...*memtable.Table) {
	d.change(func(v view) view {
		starts := slices.Repeat([]base.SegmentRef{from}, len(newer))
		v.born = append(slices.Repeat([]uint64{v.mark.turn + 1}, len(newer)), v.born...)
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
		v.born = slices.Insert(slices.Clone(v.born), 1, v.mark.turn+1)
		return v
	})
}

// without returns the view without its oldest n memtables.
func (v view) without(n int) view {
	left := len(v.tables) - n
	v.tables, v.logFrom, v.born = v.tables[:left:left], v.logFrom[:left:left], v.born[:left:left]
	return v
}

// waiting returns how many memtables wait to be flushed, and their size.
func (v *view) waiting() (n int, bytes int64) {
	return len(v.tables) - 1, bytesOf(v.tables[1:])
}

// entriesOf returns how many entries memtables have.
func entriesOf(tables []*memtable.Table) (entries int) {
	for _, t := range tables {
		entries += t.Len()
	}
	return entries
}

// bytesOf returns the memory that memtables hold.
func bytesOf(tables []*memtable.Table) (bytes int64) {
	for _, t := range tables {
		bytes += t.Bytes()
	}
	return bytes
}
