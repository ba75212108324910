package tree

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/table"
)

// Levels iterates over the levels of a view, each of which is a source. They
// are positioned together, as an iter.Group: what one level would wait for, the
// others ask for at the same time. Its buffers are kept for the next Init. It
// must not be copied while in use.
type Levels struct {
	iters []Iter
	// touched has no meaning. It makes the loads happen.
	touched uint64
}

var _ iter.Group = (*Levels)(nil)

// Init makes it an iterator over the levels of v, at no position. Levels and
// tables that have nothing newer than since are left out, whatever else they have:
// a reader that asks for what is newer need not wait for them.
func (l *Levels) Init(v *View, since base.SeqNum, opts table.IterOptions) {
	if n := v.Depth(); cap(l.iters) < n {
		l.iters = make([]Iter, n)
	}
	l.iters = l.iters[:cap(l.iters)]
	n := 0
	for i := range v.levels {
		if since > 0 && v.levels[i].newest <= since {
			continue
		}
		l.iters[n].Init(v, i, opts)
		l.iters[n].since = since
		n++
	}
	l.iters = l.iters[:n]
}

// Len returns the number of levels that are iterated over.
func (l *Levels) Len() int { return len(l.iters) }

// NewestSeq returns a sequence number that nothing in the source with the given
// index is newer than.
func (l *Levels) NewestSeq(i int) base.SeqNum { return l.iters[i].level.newest }

// Source returns what iterates over one level, by its index below Len.
func (l *Levels) Source(i int) iter.Source { return &l.iters[i] }

// Close lets go of the view.
func (l *Levels) Close() {
	for i := range l.iters {
		l.iters[i].Close()
	}
}

// Seek positions all levels as iter.Source says.
func (l *Levels) Seek(key []byte) {
	for from := 0; from < len(l.iters); from += together {
		l.seek(key, l.iters[from:min(from+together, len(l.iters))])
	}
}

// seek positions some levels, see table.Iter.Search.
func (l *Levels) seek(key []byte, iters []Iter) {
	var in [together]*table.Iter // of those that have a table to look into
	var searches [together]table.FenceSearch
	n := 0
	for i := range iters {
		if it := &iters[i]; it.enter(key) {
			in[n], searches[n] = &it.in, it.in.Search(key)
			n++
		}
	}
	for busy := true; busy; {
		busy = false
		for i := range searches[:n] {
			if s := &searches[i]; s.Left > 0 {
				s.Step()
				busy = true
			}
		}
	}
	for i, it := range in[:n] {
		it.Aim(key, &searches[i])
	}
	l.touch(in[:n])
	for _, it := range in[:n] {
		it.Settle(key)
	}
}

// touch loads what settling will read: first of all levels what leads to the
// blocks, then the blocks. The processor has only so many instructions under
// way, so that what is between the loads is kept short, and what it takes to
// find their places is done before.
func (l *Levels) touch(in []*table.Iter) {
	touched := l.touched
	for _, it := range in {
		touched += it.TouchEntry()
	}
	var room [together][]byte
	parts := room[:0]
	for _, it := range in {
		if keys := it.Target(); len(keys) > 0 {
			parts = append(parts, keys)
		}
	}
	for at := 0; at < touchMax; at += cacheLine {
		for _, p := range parts {
			touched += uint64(p[min(at, len(p)-1)])
		}
	}
	l.touched = touched
}

const (
	cacheLine = 64
	// touchMax is how much of a key part is worth being loaded before it is
	// known which of it is needed.
	touchMax = 5 * cacheLine
)
