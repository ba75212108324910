package tree

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/table"
)

// Levels iterates over the levels of a view. Each level is a source. A seek positions
// all of them as an iter.Group, so that their waits for memory overlap. Init reuses
// the buffers. Levels must not be copied while in use.
type Levels struct {
	iters []Iter
	// touched has no meaning. It keeps the compiler from removing the loads.
	touched uint64
}

var _ iter.Group = (*Levels)(nil)

// Init makes it an iterator over the levels of v, without a position. It leaves out
// levels and tables that have nothing newer than since. So a reader of newer
// versions does not wait for them.
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

// Len returns the number of levels in the iteration.
func (l *Levels) Len() int { return len(l.iters) }

// NewestSeq returns a sequence number. Nothing in the source with the given index
// is newer.
func (l *Levels) NewestSeq(i int) base.SeqNum { return l.iters[i].level.newest }

// Source returns the iterator over one level, by its index below Len.
func (l *Levels) Source(i int) iter.Source { return &l.iters[i] }

// Close releases the view.
func (l *Levels) Close() {
	for i := range l.iters {
		l.iters[i].Close()
	}
}

// Seek positions all levels as iter.Source says.
func (l *Levels) Seek(key []byte) {
	for from := 0; from < len(l.iters); from += searchesMax {
		l.seek(key, l.iters[from:min(from+searchesMax, len(l.iters))])
	}
}

// seek positions some levels; see table.Iter.Search.
func (l *Levels) seek(key []byte, iters []Iter) {
	var in [searchesMax]*table.Iter // the table iterators of levels with a table to search
	var searches [searchesMax]table.FenceSearch
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

// touch loads what Settle will read: first the directory entries of all levels, then
// the blocks. The processor overlaps only nearby loads. So touch computes all
// addresses first and keeps the code between the loads short.
func (l *Levels) touch(in []*table.Iter) {
	touched := l.touched
	for _, it := range in {
		touched += it.TouchEntry()
	}
	var room [searchesMax][]byte
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
	// touchMax is the number of bytes of a key part to load before it is known
	// which of them Settle needs.
	touchMax = 5 * cacheLine
)
