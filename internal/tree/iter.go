package tree

import (
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/table"
)

// An Iter shows the entries of one level of a view, table after table; it
// implements iter.Source. Its buffers are kept for the next Init. It must not
// be copied while in use.
type Iter struct {
	files *Files
	level *level
	opts  table.IterOptions
	at    int        // the table it is in, or outside of the level
	in    table.Iter // over that table, if positioned
	err   error
}

var _ iter.Source = (*Iter)(nil)

// Init makes it an iterator over the level of v with the given index, below
// v.Depth(), at no position.
func (it *Iter) Init(v *View, level int, opts table.IterOptions) {
	it.files, it.level, it.opts, it.err = v.files, &v.levels[level], opts, nil
	it.at = len(it.level.tables)
}

// Close lets go of the view.
func (it *Iter) Close() { it.files, it.level = nil, nil }

// Seek positions the iterator as iter.Source says.
func (it *Iter) Seek(key []byte) {
	it.err = nil
	if it.opts.Reverse {
		it.at = it.level.before(key)
	} else {
		it.at = it.level.from(key)
	}
	it.enter(key)
}

// inside reports whether the iterator is in a table.
func (it *Iter) inside() bool { return it.at >= 0 && it.at < len(it.level.tables) }

// enter begins to read the table it is in.
func (it *Iter) enter(key []byte) {
	if !it.inside() {
		return
	}
	r, err := it.files.reader(it.level.tables[it.at])
	if err != nil {
		it.err = err
		return
	}
	it.in.Init(r, it.opts)
	it.in.Seek(key)
}

// Fill replaces the contents of b as iter.Source says.
func (it *Iter) Fill(b *iter.Batch) error {
	b.N = 0
	for it.inside() && it.err == nil {
		if err := it.in.Fill(b); err != nil || b.N > 0 {
			it.err = err
			return err
		}
		if it.opts.Reverse {
			it.at--
		} else {
			it.at++
		}
		it.enter(nil)
	}
	return it.err
}
