package memtable

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

const (
	// A run is merged with all newer ones if it is less than ratio times as
	// long. Readers use readerRatio because they want few runs. The writer only
	// keeps their number logarithmic.
	writerRatio = 2
	readerRatio = 4
	// writerRunMax is the largest run, in items, that the writer makes by
	// merging. It bounds the time that a commit waits for the merge to a
	// millisecond or two.
	writerRunMax = 256 << 10
	// readerRunMax is the largest run, in items, that a reader makes by merging.
	// Merging two runs into this many items takes less than 10 ms.
	readerRunMax = 1 << 20
	// readerBudget is how many items a reader moves at most when it begins.
	// Sorting an item counts as sortCost moves.
	readerBudget = 2 << 20
	sortCost     = 6
	// seekCost is what a seek in one more run costs, as a number of items to merge.
	seekCost = 8
	// sortPiece is how many entries the writer sorts at a time. Their items fit
	// the second-level cache, and commits wait a millisecond or two.
	sortPiece = 32 << 10
)

// boundTail sorts the oldest entries of an unsorted tail that is too long, a
// piece at a time. If a reader is sorting already, it leaves the work to that
// reader. It drops an allocation error: the entries are in the table, and the
// next iterator reports the error.
func (t *Table) boundTail(n uint32) {
	bound := uint32(t.opts.TailMax)
	if n < bound || n-t.covered() < bound || !t.runs.TryLock() {
		return
	}
	defer t.runs.Unlock()
	piece := min(bound, sortPiece)
	for from := t.covered(); n-from >= bound; from += piece {
		if _, err := t.extend(from+piece, mergePolicy{writerRatio, writerRunMax, math.MaxInt}); err != nil {
			return
		}
	}
}

// covered returns how many entries are in runs.
func (t *Table) covered() uint32 {
	if s := t.runs.current.Load(); s != nil {
		return s.covered
	}
	return 0
}

// snapshot returns runs of all published entries, with a reference for the
// caller.
func (t *Table) snapshot() (*runSet, error) {
	n := t.published.Load()
	for {
		s := t.runs.current.Load()
		if s == nil || s.covered < n {
			break
		}
		if s.paid.Load() > s.price {
			t.settle(s)
			s = t.runs.current.Load()
		}
		if s.hold() {
			return s, nil
		}
	}
	t.runs.Lock()
	defer t.runs.Unlock()
	n = t.published.Load()
	budget := readerBudget - sortCost*int(n-t.covered())
	s, err := t.extend(n, mergePolicy{readerRatio, readerRunMax, budget})
	if err != nil {
		return nil, err
	}
	// The table keeps its own reference while the mutex is held.
	s.refs.Add(1)
	return s, nil
}

// settle merges the runs of a table at rest, once readers have paid for their number what
// the merge costs. So it does not merge between the commits of a queue, of which each makes
// a new set. One reader merges, the others go on with the runs as they are.
func (t *Table) settle(s *runSet) {
	if !t.runs.TryLock() {
		return
	}
	defer t.runs.Unlock()
	if t.runs.current.Load() != s {
		return
	}
	t.publish(t.mergeRuns(slices.Clone(s.runs), restPolicy), s.covered)
}

// extend publishes a set of runs that covers the first n entries, and returns
// it. The caller holds the mutex.
func (t *Table) extend(n uint32, policy mergePolicy) (*runSet, error) {
	s := t.runs.current.Load()
	var list []*run
	covered := uint32(0)
	if s != nil {
		if s.covered >= n {
			return s, nil
		}
		list, covered = s.runs, s.covered
	}
	fresh, err := t.sortTail(covered, n)
	if err != nil {
		return nil, err
	}
	// A copy, because readers hold the old set.
	list = append(make([]*run, 0, len(list)+1), list...)
	if len(fresh.items) > 0 {
		list = append(list, fresh)
	} else {
		t.discard(fresh)
	}
	return t.publish(t.mergeRuns(list, policy), n), nil
}

// sortTail returns a run of the entries at positions from to end (exclusive).
func (t *Table) sortTail(from, end uint32) (*run, error) {
	r, err := t.newRun(int(end - from))
	if err != nil {
		return nil, err
	}
	n := 0
	for at := end; at > from; {
		pairs := t.order.spanBefore(from, at)
		at -= uint32(len(pairs))
		for i := len(pairs) - 1; i >= 0; i-- {
			e := t.arena.at(pairRef(pairs[i]))
			if w := e.word(); w&isRange == 0 && !e.deadWithin(w, end) {
				r.items[n].ref = pairRef(pairs[i])
				n++
			}
		}
	}
	if n > 0 {
		tmp, err := t.scratch(n)
		if err != nil {
			t.discard(r)
			return nil, err
		}
		s := sorter{&t.arena}
		shared := s.sort(r.items[:n], tmp, 0, 0)
		t.trimScratch()
		r.shared = t.Key(r.items[0].ref)[:shared:shared]
	}
	r.finish(n)
	return r, nil
}

// scratch returns n items as temporary memory for sorting. trimScratch then
// keeps as much as the writer needs.
func (t *Table) scratch(n int) ([]item, error) {
	if n <= insertionMax {
		return nil, nil
	}
	if n*itemSize <= runHeapMax {
		return make([]item, n), nil
	}
	if len(t.runs.scratch) < n*itemSize {
		b, err := t.mem.alloc(n * itemSize)
		if err != nil {
			return nil, err
		}
		if t.runs.scratch != nil {
			t.mem.free(t.runs.scratch)
		}
		t.runs.scratch = b
	}
	return unsafe.Slice((*item)(unsafe.Pointer(unsafe.SliceData(t.runs.scratch))), n), nil
}

func (t *Table) trimScratch() {
	if len(t.runs.scratch) > sortPiece*itemSize {
		t.mem.free(t.runs.scratch)
		t.runs.scratch = nil
	}
}

// discard frees a run that was never published.
func (t *Table) discard(r *run) {
	if r.block != nil {
		r.refs = 1 // the caller's reference
		t.dropRun(r)
	}
}

// restPolicy is the one for a table at rest.
var restPolicy = mergePolicy{math.MaxInt, readerRunMax, readerBudget}

// priceOf returns how many items a merge of list by restPolicy moves at least, or the most
// there can be if it merges nothing.
func priceOf(list []*run) int64 {
	from := restPolicy.group(list)
	if from >= len(list)-1 {
		return math.MaxInt64
	}
	n := int64(0)
	for _, r := range list[from:] {
		n += int64(len(r.items))
	}
	return n
}

// A mergePolicy says which runs to merge.
type mergePolicy struct {
	ratio  int // merge a run with all newer ones if it is less than ratio times as long
	runMax int // longest run to make, in items
	budget int // how many items to move at most
}

// mergeRuns merges neighbours in list as policy says, and returns list in the
// same memory. If an allocation fails it merges less. The caller holds the
// mutex.
func (t *Table) mergeRuns(list []*run, policy mergePolicy) []*run {
	from := policy.group(list)
	for budget := policy.budget; len(list)-from > 1; {
		i, size := shortestPair(list, from)
		if budget -= size; budget < 0 {
			break
		}
		r, err := t.merge(list[i], list[i+1])
		if err != nil {
			break
		}
		for _, old := range list[i : i+2] {
			if !old.published {
				t.discard(old)
			}
		}
		list[i] = r
		list = slices.Delete(list, i+1, i+2)
	}
	return list
}

// group returns the index of the first of the runs to merge into one.
func (p mergePolicy) group(list []*run) int {
	from, size := len(list)-1, 0
	if from >= 0 {
		size = len(list[from].items)
	}
	for from > 0 {
		older := len(list[from-1].items)
		if older/p.ratio >= size || older+size > p.runMax {
			break
		}
		size += older
		from--
	}
	return max(from, 0)
}

// shortestPair returns the neighbours, from index from on, with the fewest items
// in total.
func shortestPair(list []*run, from int) (at, size int) {
	at, size = from, math.MaxInt
	for i := from; i+1 < len(list); i++ {
		if n := len(list[i].items) + len(list[i+1].items); n < size {
			at, size = i, n
		}
	}
	return at, size
}

// merge returns one run of the items of a and b. b is newer than a.
func (t *Table) merge(a, b *run) (*run, error) {
	r, err := t.newRun(len(a.items) + len(b.items))
	if err != nil {
		return nil, err
	}
	shared := base.CommonLen(a.shared, b.shared)
	x, y := a.items, b.items
	if len(a.shared) > shared {
		// They fit into the end of r. The merge writes at the beginning of r and
		// never overtakes what it still reads.
		x = lowered(r.items[len(y):len(y)], x, a.shared[shared:])
	}
	if len(b.shared) > shared {
		y = lowered(nil, y, b.shared[shared:])
	}
	t.mergeItems(r.items, x, y, shared)
	r.shared = a.shared[:shared:shared]
	r.finish(len(r.items))
	return r, nil
}

// mergeItems merges x and y into out, y first among equal keys.
func (t *Table) mergeItems(out, x, y []item, shared int) {
	invariant.Check(len(out) == len(x)+len(y), "%d items for %d and %d", len(out), len(x), len(y))
	n := 0
	for len(x) > 0 && len(y) > 0 {
		takeY := y[0].hi < x[0].hi
		if y[0].hi == x[0].hi {
			takeY = !t.less(&x[0], &y[0], shared)
		}
		if takeY {
			out[n] = y[0]
			y = y[1:]
		} else {
			out[n] = x[0]
			x = x[1:]
		}
		n++
	}
	n += copy(out[n:], x)
	copy(out[n:], y)
}

// less reports whether a's key is less than b's. Their hi are equal.
func (t *Table) less(a, b *item, shared int) bool {
	if a.lo != b.lo {
		return a.lo < b.lo
	}
	return bytes.Compare(t.Key(a.ref)[shared:], t.Key(b.ref)[shared:]) < 0
}

// lowered appends items to dst for a shorter shared prefix. Their cached bytes
// then begin with prefix, the end of the longer one.
func lowered(dst, items []item, prefix []byte) []item {
	for _, it := range items {
		var b [2 * cachedLen]byte
		n := copy(b[:cachedLen], prefix)
		binary.BigEndian.PutUint64(b[n:], it.hi)
		binary.BigEndian.PutUint32(b[n+8:], it.lo)
		it.setPrefix(b[:cachedLen])
		dst = append(dst, it)
	}
	return dst
}
