package memtable

import (
	"math"
	"math/bits"
	"unsafe"
)

// A pair is a hash above the Ref of an entry, the currency of the insertion
// order and of the hash index.
type pair = uint64

func makePair(hash uint32, r Ref) pair { return uint64(hash)<<32 | uint64(r) }
func pairHash(p pair) uint32           { return uint32(p >> 32) }
func pairRef(p pair) Ref               { return Ref(p) }

const (
	pairSize = 8
	// segmentsMax is enough for 2^32 entries from the smallest first segment.
	segmentsMax = 27
	// orderBits is the logarithm of the smallest first segment; as many
	// entries need no second one.
	orderBits    = 6
	orderBitsMax = 12
)

// An order is the list of all entries as they came. It grows by segments that
// double in size and never move, so readers need no more than the count of
// published entries.
type order struct {
	mem *counted
	// first is the logarithm of the length of segment 0. Segment k holds
	// 1<<(first+k) pairs.
	first    uint
	segments [segmentsMax]unsafe.Pointer
	blocks   [][]byte
	room     uint64 // pairs in all segments
}

// init sets the first segment's size by the number of entries expected.
func (o *order) init(mem *counted, hint int) {
	o.mem = mem
	o.first = uint(min(max(bits.Len(uint(hint)), orderBits), orderBitsMax))
}

// locate returns the segment of place i and the offset in it.
func (o *order) locate(i uint32) (segment int, offset uint64) {
	q := uint64(i)>>o.first + 1
	k := bits.Len64(q) - 1
	return k, uint64(i) - (1<<uint(k)-1)<<o.first
}

// at returns the pair at place i, which must be published or the writer's.
func (o *order) at(i uint32) pair {
	k, off := o.locate(i)
	return *(*pair)(unsafe.Add(o.segments[k], off*pairSize))
}

// set stores a pair at place i, for which there must be room.
func (o *order) set(i uint32, p pair) {
	k, off := o.locate(i)
	*(*pair)(unsafe.Add(o.segments[k], off*pairSize)) = p
}

// span returns the pairs from place i up to place end or the end of the
// segment.
func (o *order) span(i, end uint32) []pair {
	k, off := o.locate(i)
	n := min(uint64(end-i), 1<<(o.first+uint(k))-off)
	return unsafe.Slice((*pair)(unsafe.Add(o.segments[k], off*pairSize)), int(n))
}

// spanBefore returns the pairs from the beginning of a segment, or from place
// from if that is later, up to place end.
func (o *order) spanBefore(from, end uint32) []pair {
	k, off := o.locate(end - 1)
	n := min(uint64(end-from), off+1)
	return unsafe.Slice((*pair)(unsafe.Add(o.segments[k], (off+1-n)*pairSize)), int(n))
}

// reserve makes room for n pairs in all.
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

// reset forgets all pairs and keeps the first segments, together at most keep
// bytes.
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
