package tree

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/table"
)

// An Iter returns the entries of one level of a view, table after table; it
// implements iter.Source. Init reuses its buffers. An Iter must not be copied while
// in use.
type Iter struct {
	files   *Files
	level   *level
	opts    table.IterOptions
	since   base.SeqNum // skip tables with nothing newer; 0 skips none
	at      int         // index of the current table, or outside the level
	in      table.Iter  // over the current table
	scanned scanCount
	err     error
}

var _ iter.Source = (*Iter)(nil)

// Init makes it an iterator over the level of v with the given index, below
// v.Depth(). It has no position.
func (it *Iter) Init(v *View, level int, opts table.IterOptions) {
	it.files, it.level, it.opts, it.since, it.err = v.files, &v.levels[level], opts, 0, nil
	it.at = len(it.level.tables)
}

// Close releases the view, the table and the arena.
func (it *Iter) Close() {
	it.in.Close()
	it.files, it.level, it.opts.Arena, it.err = nil, nil, nil, nil
}

// Seek positions the iterator as iter.Source says.
func (it *Iter) Seek(key []byte) {
	if it.enter(key) {
		it.in.Seek(key)
	}
}

// enter finds the table for a seek to key, and reports whether there is one that
// could be opened.
func (it *Iter) enter(key []byte) bool {
	it.err = nil
	at := 0
	if it.opts.Reverse {
		at = it.level.before(key)
	} else {
		at = it.level.from(key)
	}
	if at != it.at {
		it.leave()
	}
	it.at = at
	return it.open()
}

// inside reports whether the iterator is in a table.
func (it *Iter) inside() bool { return it.at >= 0 && it.at < len(it.level.tables) }

// reads reports whether the iterator is in a table that it could open.
func (it *Iter) reads() bool { return it.inside() && it.err == nil }

// leave closes the reader of the current table, if it is Unmapped: a job that goes through
// all tables should not keep a descriptor and a mapping of each.
func (it *Iter) leave() {
	if !it.opts.Unmapped || !it.inside() {
		return
	}
	if r := it.level.tables[it.at].retire(); r != nil {
		_ = r.Close() // it was only read
	}
}

// step moves to the next table.
func (it *Iter) step() {
	it.leave()
	if it.opts.Reverse {
		it.at--
	} else {
		it.at++
	}
}

// open opens the current table, or the next one that is new enough. It reports
// whether it found one that could be opened.
func (it *Iter) open() bool {
	for it.since > 0 && it.inside() && it.level.tables[it.at].LargestSeq <= it.since {
		it.step()
	}
	if !it.inside() {
		return false
	}
	r, err := it.files.reader(it.level.tables[it.at])
	if err != nil {
		it.err = err
		return false
	}
	it.in.Init(r, it.opts)
	return true
}

// Fill replaces the contents of b as iter.Source says.
func (it *Iter) Fill(b *iter.Batch) error {
	b.N = 0
	for it.reads() {
		if err := it.in.Fill(b); err != nil || b.N > 0 {
			it.count(b.N)
			it.err = err
			return err
		}
		it.step()
		if it.open() {
			it.in.Seek(nil)
		}
	}
	if it.err != nil && b.Bound != nil && it.beyond(b.Bound) {
		return nil
	}
	return it.err
}

// beyond reports whether all keys of the current table lie beyond a bound.
func (it *Iter) beyond(bound []byte) bool {
	if it.opts.Reverse {
		return it.table().EndsBefore(bound)
	}
	return bytes.Compare(it.table().Smallest, bound) >= 0
}

// count counts entries that were read of the current table. Jobs read Unmapped.
func (it *Iter) count(n int) {
	if !it.opts.KeysOnly && !it.opts.Unmapped {
		it.scanned.add(it.files, it.level.tables[it.at].tableHandle, n)
	}
}
