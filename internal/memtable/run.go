package memtable

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// An item is an entry's place in a run: the first 12 bytes of its key after
// the prefix that all keys of the run share, padded with zeros, and its name.
// Almost all comparisons end within the 12 bytes and touch no entry.
type item struct {
	hi  uint64
	lo  uint32
	ref Ref
}

const (
	itemSize = 16
	// cachedLen is how many bytes of a key an item has.
	cachedLen = 12
)

// setPrefix caches the first bytes of rest, what follows the shared prefix.
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

// A run is an immutable list of entries in the order of iteration: ascending
// by key and, within a key, newest first.
type run struct {
	items []item
	// fences holds the hi of every fenceStride-th item. A search reads them
	// instead of items that are far apart.
	fences []uint64
	// shared is the prefix that all keys have in common, in an entry's key.
	shared []byte
	// block is the memory of items and fences; nil if they are on the Go
	// heap.
	block []byte
	refs  int32 // run sets that hold the run, guarded by runs.life
	// published says that the run is or was in a set; guarded by the mutex of
	// runs. Before that, the run belongs to whoever is sorting.
	published bool
}

const (
	fenceStride = 32
	fencesMin   = 4 * fenceStride
	// runHeapMax is the largest run in bytes that lies on the Go heap: blocks
	// of other memory are too coarse for the many small runs that live a
	// short time.
	runHeapMax = 32 << 10
)

// A runSet is what an iterator needs: runs that together hold the first
// covered entries of the insertion order, the older ones first. It is
// immutable. The table and each iterator count as references.
type runSet struct {
	runs    []*run
	covered uint32
	refs    atomic.Int32
}

// runs is the sorted side of a table. The mutex is held by whoever sorts.
type runs struct {
	sync.Mutex
	current atomic.Pointer[runSet]
	// scratch is what the radix sort needs beside a run.
	scratch []byte

	// life guards the reference counts of runs, and the list of those that
	// hold blocks.
	life struct {
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
	t.runs.life.Lock()
	t.runs.life.blocks = append(t.runs.life.blocks, r)
	t.runs.life.Unlock()
	return r, nil
}

// finish cuts the run to its n items, which are in place, and builds the
// fences.
func (r *run) finish(n int) {
	r.items = r.items[:n]
	r.fences = r.fences[:min(len(r.fences), (n+fenceStride-1)/fenceStride)]
	for i := range r.fences {
		r.fences[i] = r.items[i*fenceStride].hi
	}
}

// dropRun takes one reference from r and frees it when that was the last.
// Runs on the Go heap are left to the collector.
func (t *Table) dropRun(r *run) {
	t.runs.life.Lock()
	defer t.runs.life.Unlock()
	if r.refs--; r.refs > 0 || r.block == nil {
		return
	}
	i := slices.Index(t.runs.life.blocks, r)
	last := len(t.runs.life.blocks) - 1
	t.runs.life.blocks[i] = t.runs.life.blocks[last]
	t.runs.life.blocks[last] = nil
	t.runs.life.blocks = t.runs.life.blocks[:last]
	t.mem.free(r.block)
	r.block, r.items, r.fences = nil, nil, nil
}

// publish makes list the current set of runs. The caller holds the mutex of
// t.runs.
func (t *Table) publish(list []*run, covered uint32) *runSet {
	s := &runSet{runs: list, covered: covered}
	s.refs.Store(1)
	t.runs.life.Lock()
	for _, r := range list {
		r.refs++
		r.published = true
	}
	t.runs.life.Unlock()
	if old := t.runs.current.Swap(s); old != nil {
		t.dropSet(old)
	}
	return s
}

// dropSet takes one reference from s.
func (t *Table) dropSet(s *runSet) {
	if s.refs.Add(-1) > 0 {
		return
	}
	for _, r := range s.runs {
		t.dropRun(r)
	}
}

// hold adds a reference to s unless s is already on its way out.
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
