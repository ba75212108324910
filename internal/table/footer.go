package table

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/stoatdb/stoat/internal/base"
)

// A footer ends every table. It determines the layout of everything before it but
// the blocks. There are no gaps: every byte of the file is covered by a checksum
// or must be zero:
//
//	blocks       key parts and value parts
//	zeros        to a multiple of 4096
//	hash index
//	sums         8 bytes for the key part of each block, 8 for its value
//	             part, 8 for each page of the hash index
//	fences       8 bytes for each block
//	directory    32 bytes for each block
//	deletions    range tombstones, see rangedel.List.AppendTo
//	properties
//	footer
//
// The footer itself, little-endian:
//
//	offset  size  field
//	0       8     magic
//	8       4     format version
//	12      4     bytes of a slot, bits of a position, bits of an entry, zero
//	16      8     salt
//	24      8     size of the file
//	32      8     seed of the key hash
//	40      8     end of the blocks
//	48      8     count of blocks
//	56      8     count of slots in the hash index
//	64      8     length of the properties
//	72      8     length of the deletions
//	80      8     checksum of the sums
//	88      8     checksum of the fences
//	96      8     checksum of the directory
//	104     8     checksum of the deletions
//	112     8     checksum of the properties
//	120     8     checksum of the footer up to here
//
// A table of only range tombstones has no blocks.
type footer struct {
	salt, hashSeed     uint64
	size, dataEnd      int64
	blocks             int64
	hash               hashShape
	propsLen, delsLen  int64
	sumsSum, fencesSum uint64
	directorySum       uint64
	delsSum, propsSum  uint64
}

const (
	footerSize    = 128
	magic         = 0x656c626174a7c357
	formatVersion = 1
	fenceSize     = 8
	sumSize       = 8
)

func (f *footer) hashOff() int64 { return (f.dataEnd + pageSize - 1) &^ (pageSize - 1) }
func (f *footer) sumsOff() int64 { return f.hashOff() + f.hash.bytes() }
func (f *footer) fencesOff() int64 {
	return f.sumsOff() + 2*sumSize*f.blocks + sumSize*int64(f.hash.pages())
}
func (f *footer) directoryOff() int64 { return f.fencesOff() + fenceSize*f.blocks }
func (f *footer) delsOff() int64      { return f.directoryOff() + blockEntrySize*f.blocks }
func (f *footer) propsOff() int64     { return f.delsOff() + f.delsLen }
func (f *footer) footerOff() int64    { return f.propsOff() + f.propsLen }

// sumOf returns the checksum of b, which is at off. The offset is mixed in, so
// that moved bytes do not verify.
func (f *footer) sumOf(b []byte, off int64) uint64 { return partSum(f.salt, b, off) }

func partSum(salt uint64, b []byte, off int64) uint64 {
	return base.Checksum(b, salt^uint64(off)*0x9e3779b97f4a7c15)
}

func (f *footer) append(dst []byte) []byte {
	le := binary.LittleEndian
	start := len(dst)
	dst = le.AppendUint64(dst, magic)
	dst = le.AppendUint32(dst, formatVersion)
	dst = append(dst, f.hash.slotBytes, f.hash.posBits, f.hash.entryBits, 0)
	for _, x := range []uint64{f.salt, uint64(f.size), f.hashSeed, uint64(f.dataEnd), uint64(f.blocks),
		f.hash.slots, uint64(f.propsLen), uint64(f.delsLen), f.sumsSum, f.fencesSum, f.directorySum, f.delsSum, f.propsSum} {
		dst = le.AppendUint64(dst, x)
	}
	return le.AppendUint64(dst, f.sumOf(dst[start:], f.size-footerSize))
}

// decodeFooter decodes the last bytes of a file of the given size.
func decodeFooter(src []byte, size int64) (footer, error) {
	le := binary.LittleEndian
	at := size - footerSize
	if len(src) != footerSize {
		return footer{}, base.Corrupt(max(at, 0), "size of a table", size, fmt.Sprintf("at least %d", footerSize))
	}
	if m := le.Uint64(src); m != magic {
		return footer{}, base.Corrupt(at, "magic of a table", fmt.Sprintf("%#x", m), fmt.Sprintf("%#x", uint64(magic)))
	}
	word := func(i int) uint64 { return le.Uint64(src[16+8*i:]) }
	f := footer{
		salt: word(0), size: int64(word(1)), hashSeed: word(2), dataEnd: int64(word(3)), blocks: int64(word(4)),
		hash:     hashShape{slots: word(5), slotBytes: src[12], posBits: src[13], entryBits: src[14]},
		propsLen: int64(word(6)), delsLen: int64(word(7)),
		sumsSum: word(8), fencesSum: word(9), directorySum: word(10), delsSum: word(11), propsSum: word(12),
	}
	if got, want := le.Uint64(src[footerSize-8:]), f.sumOf(src[:footerSize-8], at); got != want {
		return footer{}, base.Corrupt(at, "checksum of a table's footer", fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", want))
	}
	if v := le.Uint32(src[8:]); v != formatVersion {
		return footer{}, base.Corrupt(at+8, "format version of a table", v, formatVersion)
	}
	return f, f.check(size, src[15])
}

// check reports why the layout is invalid. It bounds each number before it adds
// it, so that nothing overflows.
func (f *footer) check(size int64, zero byte) error {
	at := size - footerSize
	h := &f.hash
	switch {
	case f.size != size:
		return base.Corrupt(at+24, "size of a table", size, f.size)
	case size > math.MaxInt:
		return base.Corrupt(at+24, "size of a table", size, "a size that this machine can address")
	case zero != 0:
		return base.Corrupt(at+15, "reserved byte of a table's footer", zero, 0)
	case h.slotBytes != 4 && h.slotBytes != 8:
		return base.Corrupt(at+12, "bytes of a slot", h.slotBytes, "4 or 8")
	case h.posBits == 0 || h.posBits >= min(h.slotBytes*8, 48):
		return base.Corrupt(at+13, "bits of a position", h.posBits, "at least 1, fewer than in a slot")
	case h.entryBits > 8 || h.entryBits > h.posBits:
		return base.Corrupt(at+14, "bits of an entry", h.entryBits, "at most 8")
	case f.dataEnd < 0 || f.dataEnd > size:
		return base.Corrupt(at+40, "end of the blocks", f.dataEnd, "within the file")
	case f.blocks < 0 || f.blocks > min(blocksMax, size/blockEntrySize):
		return base.Corrupt(at+48, "count of blocks", f.blocks, "a number that fits the file")
	case (f.blocks == 0) != (f.dataEnd == 0):
		return base.Corrupt(at+48, "count of blocks", f.blocks, fmt.Sprintf("the number for %d bytes of blocks", f.dataEnd))
	case f.blocks == 0 && f.delsLen == 0:
		return base.Corrupt(at+48, "count of blocks", 0, "blocks, or range deletions")
	case f.blocks == 0 && h.slots != slotsFor(0, false):
		return base.Corrupt(at+56, "count of slots without blocks", h.slots, slotsFor(0, false))
	case h.slots <= 1 || h.slots > uint64(size/int64(h.slotBytes)):
		return base.Corrupt(at+56, "count of slots", h.slots, "a number that fits the file")
	case f.propsLen < 0 || f.propsLen > size:
		return base.Corrupt(at+64, "length of the properties", f.propsLen, "a number that fits the file")
	case f.delsLen < 0 || f.delsLen > size:
		return base.Corrupt(at+72, "length of the range deletions", f.delsLen, "a number that fits the file")
	case f.footerOff() != at:
		return base.Corrupt(at, "end of the properties", f.footerOff(), at)
	}
	return nil
}
