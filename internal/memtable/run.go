package memtable

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// An item stands for an entry in a run: its Ref, and 12 bytes of its key, padded
// with zeros. These are the first bytes after the prefix that all keys of the
// run share. Almost all comparisons end within the 12 bytes and touch no entry.
type item struct {
	hi  uint64
	lo  uint32
	ref Ref
}

const (
	itemSize = 16
	// cachedLen is how many bytes of a key an item holds.
	cachedLen = 12
)

// setPrefix caches the first bytes of rest, the part of the key after the shared
// prefix.
func (it *item) setPrefix(rest []byte) {
	if len(rest) >= cachedLen {
		it.hi = binary.BigEndian.Uint64(rest)
		it.lo = binary.BigEndian.Uint32(rest[8:])
		return
	}
	var padded [cachedLen]byte
	copy(padded[:], rest)
	it.hi = binary.BigEndian.Uint64(padded[:])
	it.lo = binary.BigEndian.Uint32(padded[8:])
}

// before reports whether the cached bytes of it are smaller than those of other.
func (it item) before(other item) bool {
	return it.hi < other.hi || it.hi == other.hi && it.lo < other.lo
}

// A run is an immutable list of entries in the order of iteration: ascending
// by key and, within a key, newest first.
type run struct {
	items []item
	// fences holds the hi of every fenceStride-th item. A search reads them
	// instead of items that lie far apart.
	fences []uint64
	// shared is the prefix that all keys have in common. It points into an
	// entry's key.
	shared []byte
	// block is the memory of items and fences, or nil if they are on the Go
	// heap.
	block []byte
	// sums is the summary, nil until a reader needs it.
	sums atomic.Pointer[summary]
	refs int32 // run sets that hold the run; runs.held guards it
	// published says that the run is or was in a set. The mutex of runs guards
	// it. Before that, the run belongs to the goroutine that sorts.
	published bool
}

const (
	fenceStride = 32
	fencesMin   = 4 * fenceStride
	// runHeapMax is the size in bytes of the largest run on the Go heap. Other
	// memory comes in blocks too coarse for many small, short-lived runs.
	runHeapMax = 32 << 10
)

// A runSet is what an iterator needs: runs that together hold the first covered
// entries of the insertion order, the older ones first. It is immutable. The
// table and each iterator hold references.
type runSet struct {
	runs    []*run
	covered uint32
	refs    atomic.Int32
	// paid is what readers have paid for the number of runs, as a number of items to
	// merge. price is what it costs to merge the runs.
	paid  atomic.Int64
	price int64
}

// runs are the sorted runs of a table. The sorting goroutine holds the mutex,
// which guards stores to current; loads need no lock.
type runs struct {
	sync.Mutex
	current atomic.Pointer[runSet]
	// scratch is temporary memory of the radix sort. The mutex guards it.
	scratch []byte

	// held guards the reference counts of runs, and blocks: the runs that hold
	// blocks.
	held struct {
		sync.Mutex
		blocks []*run
	}
}

// newRun returns a run with room for n items.
func (t *Table) newRun(n int) (*run, error) {
	fences := 0
	if n >= fencesMin {
		fences = (n + fenceStride - 1) / fenceStride
	}
	if n*itemSize <= runHeapMax {
		return &run{items: make([]item, n), fences: make([]uint64, fences)}, nil
	}
	if uint64(n)*itemSize+uint64(fences)*8 > math.MaxInt {
		return nil, ErrFull
	}
	b, err := t.mem.alloc(n*itemSize + fences*8)
	if err != nil {
		return nil, err
	}
	r := &run{block: b}
	r.items = unsafe.Slice((*item)(unsafe.Pointer(unsafe.SliceData(b))), n)
	r.fences = unsafe.Slice((*uint64)(unsafe.Pointer(&b[n*itemSize])), fences)
	t.runs.held.Lock()
	t.runs.held.blocks = append(t.runs.held.blocks, r)
	t.runs.held.Unlock()
	return r, nil
}

// finish cuts the run to its n sorted items and builds the fences.
func (r *run) finish(n int) {
	r.items = r.items[:n]
	r.fences = r.fences[:min(len(r.fences), (n+fenceStride-1)/fenceStride)]
	for i := range r.fences {
		r.fences[i] = r.items[i*fenceStride].hi
	}
}

// dropRun releases one reference to r and frees r with the last one. The garbage
// collector frees runs on the Go heap.
func (t *Table) dropRun(r *run) {
	t.runs.held.Lock()
	defer t.runs.held.Unlock()
	if r.refs--; r.refs > 0 || r.block == nil {
		return
	}
	i := slices.Index(t.runs.held.blocks, r)
	last := len(t.runs.held.blocks) - 1
	t.runs.held.blocks[i] = t.runs.held.blocks[last]
	t.runs.held.blocks[last] = nil
	t.runs.held.blocks = t.runs.held.blocks[:last]
	t.mem.free(r.block)
	r.block, r.items, r.fences = nil, nil, nil
}

// publish makes list the current set of runs. The caller holds the mutex of
// t.runs.
func (t *Table) publish(list []*run, covered uint32) *runSet {
	s := &runSet{runs: list, covered: covered, price: priceOf(list)}
	s.refs.Store(1)
	t.runs.held.Lock()
	for _, r := range list {
		r.refs++
		r.published = true
	}
	t.runs.held.Unlock()
	if old := t.runs.current.Swap(s); old != nil {
		t.dropSet(old)
	}
	return s
}

// dropSet releases one reference to s.
func (t *Table) dropSet(s *runSet) {
	if s.refs.Add(-1) > 0 {
		return
	}
	for _, r := range s.runs {
		t.dropRun(r)
	}
}

// hold adds a reference to s. It reports false if s has no reference left.
func (s *runSet) hold() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}
