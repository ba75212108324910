package table

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// The hash index is an open-addressing array of slots. It maps the hash of a key
// to the key's newest version. It serves as filter and index in one: the search for
// an absent key meets an empty slot, nearly always in the first cache line.
// A slot is
//
//	tag << posBits | position + 1
//
// little-endian, zero when empty. The position is block << entryBits | entry, in
// as few bits as the table needs. The remaining bits are a tag from the low end
// of the hash. The high end of the hash chooses the first slot of the search,
// which continues with the following slots and wraps around.
//
// Slots have one of two widths. A table of 32 MB needs about 20 bits for a
// position. So 32-bit slots have tags of 12 bits, and about one absent key in 700
// costs a useless key comparison. 64-bit slots are for tables so large that few
// bits would remain for the tag.
type hashShape struct {
	slots     uint64
	slotBytes uint8
	posBits   uint8
	entryBits uint8
}

const (
	// pageSize is the unit in which the hash index is verified, in bytes.
	pageSize = 1 << pageBits
	pageBits = 12
	// tagBitsMax keeps the tag apart from the bits that choose the slot.
	tagBitsMax = 32
	// tagBitsMin is the shortest tag for which slots have 4 bytes.
	tagBitsMin = 8
)

func (h *hashShape) tagBits() uint {
	return min(tagBitsMax, uint(h.slotBytes)*8-uint(h.posBits))
}

// pageShift returns the number of bits to shift a slot number right to get its
// page number.
func (h *hashShape) pageShift() uint {
	if h.slotBytes == 4 {
		return pageBits - 2
	}
	return pageBits - 3
}

func (h *hashShape) bytes() int64 { return int64(h.slots) * int64(h.slotBytes) }

func (h *hashShape) pages() int { return int((h.bytes() + pageSize - 1) / pageSize) }

// home returns the slot at which the search for a hash starts, and the tag.
func (h *hashShape) home(hash uint64) (slot, tag uint64) {
	slot, _ = bits.Mul64(hash, h.slots)
	return slot, hash & (1<<h.tagBits() - 1)
}

// load returns a slot of the index b.
func (h *hashShape) load(b []byte, slot uint64) uint64 {
	if h.slotBytes == 4 {
		return uint64(binary.LittleEndian.Uint32(b[4*slot:]))
	}
	return binary.LittleEndian.Uint64(b[8*slot:])
}

func (h *hashShape) store(b []byte, slot, x uint64) {
	if h.slotBytes == 4 {
		binary.LittleEndian.PutUint32(b[4*slot:], uint32(x))
	} else {
		binary.LittleEndian.PutUint64(b[8*slot:], x)
	}
}

// A hashBuilder collects the keys of a table until their number is known.
type hashBuilder struct {
	hashes []uint64
	places []uint32 // block << 8 | entry
}

// blocksMax is the maximum number of blocks in a table.
const blocksMax = 1 << 24

func (b *hashBuilder) add(hash uint64, block, entry int) {
	b.hashes = append(doubled(b.hashes), hash)
	b.places = append(doubled(b.places), uint32(block)<<8|uint32(entry))
}

// doubled returns a with room for one more element. It doubles the capacity of
// long lists, where append would grow them in smaller steps and copy more often.
func doubled[T any](a []T) []T {
	if len(a) < cap(a) {
		return a
	}
	return slices.Grow(a, max(len(a), 64))
}

// shape chooses the layout of the index. blocks is the number of blocks, fullest
// the largest number of entries in one. A table without blocks has the index of a
// table with one block. wide asks for slots of 8 bytes, whatever the size.
func (b *hashBuilder) shape(blocks, fullest int, wide, sparse bool) hashShape {
	blocks, fullest = max(blocks, 1), max(fullest, 1)
	h := hashShape{entryBits: uint8(bits.Len(uint(fullest - 1))), slotBytes: 4}
	last := uint64(blocks-1)<<h.entryBits | (1<<h.entryBits - 1)
	h.posBits = uint8(bits.Len64(last + 1))
	if wide || h.posBits > 32-tagBitsMin {
		h.slotBytes = 8
	}
	h.slots = slotsFor(len(b.hashes), sparse)
	return h
}

// slotsFor returns the number of slots for that many keys. Three quarters full, a
// hit checks two or three slots and a miss eight. Half full (sparse), a hit checks
// one or two and a miss two or three.
func slotsFor(keys int, sparse bool) uint64 {
	if sparse {
		return uint64(keys)*2 + 2
	}
	return uint64(keys)*4/3 + 2
}

// build returns the encoded index.
func (b *hashBuilder) build(h hashShape) []byte {
	out := make([]byte, h.bytes())
	for i, hash := range b.hashes {
		place := uint64(b.places[i])
		pos := place>>8<<h.entryBits | place&0xff
		slot, tag := h.home(hash)
		for h.load(out, slot) != 0 {
			if slot++; slot == h.slots {
				slot = 0
			}
		}
		h.store(out, slot, tag<<h.posBits|(pos+1))
	}
	return out
}
