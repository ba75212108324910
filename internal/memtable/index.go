package memtable

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// An index is an open-addressing hash table of pairs. It has one pair for each
// key, which leads to the key's newest version. The home of a pair is at the
// high bits of its hash. The pair lies there or in the slots that follow, up to
// the first empty one. Slots never become empty, so readers need no lock: a slot
// that changes under a reader still leads to an entry of the same key.
//
// Homes ascend with the hash. So doubling an index reads the old slots and
// writes the new ones in order, and touches no key.
type index struct {
	slots unsafe.Pointer // to the array of pairs
	shift uint32         // hash >> shift is the home of a hash
	mask  uint32         // number of slots less 1
	block []byte
}

const (
	// smallMax is how many entries a table holds without an index. A scan of
	// their hashes in the insertion order is as fast.
	smallMax = 8
	// slotBitsMin is the logarithm of the slots of the smallest index.
	slotBitsMin = 5
	slotBitsMax = 31
)

// slotBits returns the logarithm of the number of slots for n keys. At most two
// of three slots are taken.
func slotBits(n uint64) uint {
	return min(max(uint(bits.Len64(n+n/2)), slotBitsMin), slotBitsMax)
}

// room returns for how many keys the index is large enough: the greatest number for which
// slotBits returns its size.
func (ix *index) room() uint64 {
	if ix == nil {
		return 0
	}
	return (uint64(ix.mask) + 1) * 2 / 3
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

// first returns the entry of the first key with a hash, or 0.
func (ix *index) first(hash uint32) Ref {
	for i := ix.home(hash); ; i = (i + 1) & ix.mask {
		switch p := atomic.LoadUint64(ix.slot(i)); {
		case p == 0:
			return 0
		case pairHash(p) == hash:
			return pairRef(p)
		}
	}
}

// put stores the pair p of a key. It replaces the pair with the same hash and
// Ref old, or fills an empty slot if old is 0.
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

// touch loads the home of hash into the processor's cache. The result has no
// meaning; returning it keeps the compiler from removing the load.
func (ix *index) touch(hash uint32) pair { return atomic.LoadUint64(ix.slot(ix.home(hash))) }

// copyTo puts all pairs into a larger index that is not published yet.
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
