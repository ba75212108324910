package memtable

import (
	"math"
	"math/bits"
	"unsafe"
)

// A pair is a hash above the Ref of an entry. The insertion order and the hash
// index consist of pairs.
type pair = uint64

func makePair(hash uint32, r Ref) pair { return uint64(hash)<<32 | uint64(r) }
func pairHash(p pair) uint32           { return uint32(p >> 32) }
func pairRef(p pair) Ref               { return Ref(p) }

const (
	pairSize = 8
	// segmentsMax segments hold 2^32 entries, even from the smallest first
	// segment.
	segmentsMax = 27
	// orderBits is the logarithm of the length of the smallest first segment. A
	// table with fewer entries needs no second one.
	orderBits    = 6
	orderBitsMax = 12
)

// An order is the insertion order: the list of all entries as they came. It
// grows by segments that double in size and never move. So readers need only the
// count of published entries.
type order struct {
	mem *counted
	// first is the logarithm of the length of segment 0. Segment k holds
	// 1<<(first+k) pairs.
	first    uint
	segments [segmentsMax]unsafe.Pointer
	blocks   [][]byte
	room     uint64 // pairs in all segments
}

// init chooses the first segment's size for the expected number of entries.
func (o *order) init(mem *counted, hint int) {
	o.mem = mem
	o.first = uint(min(max(bits.Len(uint(hint)), orderBits), orderBitsMax))
}

// locate returns the segment of position i and the offset in it.
func (o *order) locate(i uint32) (segment int, offset uint64) {
	q := uint64(i)>>o.first + 1
	k := bits.Len64(q) - 1
	return k, uint64(i) - (1<<uint(k)-1)<<o.first
}

// at returns the pair at position i. Only the writer may read unpublished
// positions.
func (o *order) at(i uint32) pair {
	k, off := o.locate(i)
	return *(*pair)(unsafe.Add(o.segments[k], off*pairSize))
}

// set stores a pair at position i. reserve must have made room for it.
func (o *order) set(i uint32, p pair) {
	k, off := o.locate(i)
	*(*pair)(unsafe.Add(o.segments[k], off*pairSize)) = p
}

// span returns the pairs from position i up to end (exclusive), or to the end of
// the segment.
func (o *order) span(i, end uint32) []pair {
	k, off := o.locate(i)
	n := min(uint64(end-i), 1<<(o.first+uint(k))-off)
	return unsafe.Slice((*pair)(unsafe.Add(o.segments[k], off*pairSize)), int(n))
}

// spanBefore returns the pairs up to position end (exclusive). They begin at
// from or at the beginning of the segment, whichever is later.
func (o *order) spanBefore(from, end uint32) []pair {
	k, off := o.locate(end - 1)
	n := min(uint64(end-from), off+1)
	return unsafe.Slice((*pair)(unsafe.Add(o.segments[k], (off+1-n)*pairSize)), int(n))
}

// reserve makes room for n pairs in total.
func (o *order) reserve(n uint64) error {
	if n <= o.room {
		return nil
	}
	return o.extend(n)
}

func (o *order) extend(n uint64) error {
	if n > math.MaxUint32 {
		return ErrFull
	}
	for o.room < n {
		k := len(o.blocks)
		size := uint64(pairSize) << (o.first + uint(k))
		if size > entryMax {
			return ErrFull
		}
		b, err := o.mem.alloc(int(size))
		if err != nil {
			return err
		}
		o.blocks = append(o.blocks, b)
		o.segments[k] = unsafe.Pointer(unsafe.SliceData(b))
		o.room += 1 << (o.first + uint(k))
	}
	return nil
}

// reset removes all pairs. It keeps the first segments, at most keep bytes in
// total.
func (o *order) reset(keep int) {
	if len(o.blocks) == 0 {
		return
	}
	kept := 0
	for kept < len(o.blocks) && len(o.blocks[kept]) <= keep {
		keep -= len(o.blocks[kept])
		kept++
	}
	for i := kept; i < len(o.blocks); i++ {
		o.mem.free(o.blocks[i])
		o.blocks[i], o.segments[i] = nil, nil
	}
	o.blocks = o.blocks[:kept]
	o.room = (1<<uint(kept) - 1) << o.first
}
