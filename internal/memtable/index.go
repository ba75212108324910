package memtable

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// An index is an open-addressing table of pairs, one for each key, leading to
// its newest version. A pair's home is at the high bits of its hash; it lies
// there or in the slots that follow, up to the first empty one. Slots never
// become empty, so readers need no lock: a slot that changes under them still
// leads to an entry of the same key.
//
// Because homes ascend with the hash, doubling an index reads the old slots
// and writes the new ones in order, and touches no key.
type index struct {
	slots unsafe.Pointer // to pairs
	shift uint32         // a hash shifted right by it is its home
	mask  uint32         // the number of slots less 1
	block []byte
}

const (
	// smallMax is how many entries a table holds without an index: looking
	// through their hashes in the insertion order is as fast.
	smallMax = 8
	// slotBitsMin is the logarithm of the smallest index.
	slotBitsMin = 5
	slotBitsMax = 31
)

// slotBits returns the logarithm of the number of slots for n keys: of three
// slots at most two are taken.
func slotBits(n uint64) uint {
	return min(max(uint(bits.Len64(n+n/2)), slotBitsMin), slotBitsMax)
}

// room returns for how many keys an index is large enough.
func (ix *index) room() uint64 {
	if ix == nil {
		return 0
	}
	return (uint64(ix.mask) + 1) / 3 * 2
}

func newIndex(mem *counted, slotBits uint) (*index, error) {
	size := uint64(pairSize) << slotBits
	if size > entryMax {
		return nil, ErrFull
	}
	b, err := mem.alloc(int(size))
	if err != nil {
		return nil, err
	}
	clear(b)
	return &index{
		slots: unsafe.Pointer(unsafe.SliceData(b)),
		shift: 32 - uint32(slotBits),
		mask:  1<<slotBits - 1,
		block: b,
	}, nil
}

func (ix *index) home(hash uint32) uint32 { return hash >> (ix.shift & 31) }

func (ix *index) slot(i uint32) *pair { return (*pair)(unsafe.Add(ix.slots, uintptr(i)*pairSize)) }

// find returns the newest version of key, or 0.
func (ix *index) find(a *arena, key []byte, hash uint32) Ref {
	for i := ix.home(hash); ; i = (i + 1) & ix.mask {
		p := atomic.LoadUint64(ix.slot(i))
		if p == 0 {
			return 0
		}
		if pairHash(p) != hash {
			continue
		}
		if a.at(pairRef(p)).hasKey(key) {
			return pairRef(p)
		}
	}
}

// put makes p the pair of its key, in the place of the pair with the same hash
// and Ref old, or in an empty slot if old is 0.
func (ix *index) put(p pair, old Ref) {
	want := pair(0)
	if old != 0 {
		want = makePair(pairHash(p), old)
	}
	i := ix.home(pairHash(p))
	for *ix.slot(i) != want {
		i = (i + 1) & ix.mask
	}
	atomic.StoreUint64(ix.slot(i), p)
}

// touch brings the home of hash into the cache. Its result is of no interest;
// returning it keeps the load.
func (ix *index) touch(hash uint32) pair { return atomic.LoadUint64(ix.slot(ix.home(hash))) }

// copyTo puts all pairs into a larger index that nobody else sees yet.
func (ix *index) copyTo(to *index) {
	for i := uint64(0); i <= uint64(ix.mask); i++ {
		p := *ix.slot(uint32(i))
		if p == 0 {
			continue
		}
		j := to.home(pairHash(p))
		for *to.slot(j) != 0 {
			j = (j + 1) & to.mask
		}
		*to.slot(j) = p
	}
}
