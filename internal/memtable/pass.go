package memtable

import (
	"math"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/mutant"
)

// References ascend in the order of writing, except around large entries. So a reader
// tells from references alone, without a look at the entries, which part of a run is
// older than a version. A summary has the greatest reference of each piece of a run.

var _ iter.Passer = (*Iter)(nil)

const (
	// pieceItems is how many items, or pieces, one number of a summary is about.
	pieceItems = 32
	// summaryMin is the least number of items of a run that has a summary.
	summaryMin = 4 * pieceItems
)

// A summary has, at level 0, the greatest reference of each pieceItems items of a run. At
// each level above, it has the greatest reference of as many pieces. The first reader that
// passes items of the run makes it.
type summary [][]Ref

// summarize returns the summary of r, or nil if r is short.
func (r *run) summarize() summary {
	if len(r.items) < summaryMin {
		return nil
	}
	if s := r.sums.Load(); s != nil {
		return *s
	}
	level := make([]Ref, (len(r.items)+pieceItems-1)/pieceItems)
	for i := range r.items {
		level[i/pieceItems] = max(level[i/pieceItems], r.items[i].ref)
	}
	s := summary{level}
	for len(level) > pieceItems {
		above := make([]Ref, (len(level)+pieceItems-1)/pieceItems)
		for i, ref := range level {
			above[i/pieceItems] = max(above[i/pieceItems], ref)
		}
		level = above
		s = append(s, level)
	}
	r.sums.Store(&s)
	return s
}

// next returns the index of the first item from index from on, and before end, whose
// reference is at least ref, or end.
func (r *run) next(from, end int, ref uint64) int {
	s := r.summarize()
	for from < end {
		if n := s.older(from, ref, false); n > 0 {
			from += n
			continue
		}
		if uint64(r.items[from].ref) >= ref {
			return from
		}
		from++
	}
	return end
}

// last returns the index behind the last item before index from, and from index end on,
// whose reference is at least ref, or end.
func (r *run) last(from, end int, ref uint64) int {
	s := r.summarize()
	for from > end {
		if n := s.older(from, ref, true); n > 0 {
			from -= n
			continue
		}
		if uint64(r.items[from-1].ref) >= ref {
			return from
		}
		from--
	}
	return end
}

// older returns the length of the longest piece that begins at index at, or ends there,
// and has no reference from ref on. It is 0 if there is none.
func (s summary) older(at int, ref uint64, ends bool) (n int) {
	size := pieceItems
	for _, level := range s {
		i := at / size
		if ends {
			i--
		}
		if at%size != 0 || i < 0 || i >= len(level) || uint64(level[i]) >= ref {
			break
		}
		n = size
		size *= pieceItems
	}
	return n
}

// Pass implements iter.Passer.
func (it *Iter) Pass(bound []byte, upTo base.SeqNum) {
	if it.err != nil || len(it.queue) == 0 {
		return
	}
	newer := it.newerThan(upTo)
	if mutant.On(mutant.GapPassesNewer) {
		newer = everyRef
	}
	left := append(it.passing[:0], it.queue...)
	it.queue = it.queue[:0]
	for _, c := range left {
		if it.reverse {
			if end := c.run.search(it.t, bound); c.pos > end {
				c.pos = c.run.last(c.pos, end, newer)
			}
		} else {
			end := len(c.items)
			if bound != nil {
				end = c.run.search(it.t, bound)
			}
			if c.pos < end {
				c.pos = c.run.next(c.pos, end, newer)
			}
		}
		if !c.done(it.reverse) {
			c.setHead()
			it.queue = append(it.queue, c)
			it.sink(len(it.queue) - 1)
		}
	}
	it.passing = left[:0]
	clear(left)
}

// newerThan returns a reference. No entry of the iterator with a lower one is newer than
// version v.
func (it *Iter) newerThan(v base.SeqNum) uint64 {
	if it.passed == v && it.passedRef != 0 {
		return it.passedRef
	}
	it.passed, it.passedRef = v, it.t.refAfter(v, it.set.covered)
	return it.passedRef
}

const (
	// everyRef is greater than all references.
	everyRef = math.MaxUint32 + 1
	// ownMax is how many large entries refAfter passes.
	ownMax = 32
)

// refAfter returns a reference. Of the first n entries, none with a lower one is newer
// than version v. It is 1, which is lower than all, if that takes long to find.
//
// An entry has a lower reference than all later ones, unless it has a chunk of its own.
// Smaller ones go on filling the chunk before that.
func (t *Table) refAfter(v base.SeqNum, n uint32) uint64 {
	lowest := uint64(everyRef)
	from := t.firstAfter(v, n)
	for i := from; i < n; i++ {
		if i-from >= ownMax {
			return 1
		}
		r := pairRef(t.order.at(i))
		lowest = min(lowest, uint64(r))
		if r&unitMask != 0 {
			break // it is not the only entry of its chunk
		}
	}
	return lowest
}
