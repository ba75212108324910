package table

import (
	"encoding/binary"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// A blockEntry is the directory's entry of one block: where its two parts are and
// how the key part is laid out. A point read computes the position of every column
// from the entry alone. So the reads of key, sequence number and value do not
// wait for each other. On disk it is 32 bytes, little-endian:
//
//	offset  size  field
//	0       6     offset of the key part
//	6       1     count of entries, less one
//	7       1     flags of every entry; 0 when there is a column of flags
//	8       6     offset of the value part
//	14      2     length of the prefix that the keys share
//	16      4     length of the key part
//	20      4     length of the value part, as stored
//	24      4     without ends of values: the length of every value;
//	              with them: the sum of the lengths
//	28      2     without ends of suffixes: the length of every suffix
//	30      2     shape:
//	              bits 0-1    width of the ends of suffixes
//	              bits 2-3    width of the ends of values
//	              bits 4-6    width of the sequence numbers
//	              bits 7-9    width of the expiries
//	              bit 10      there is a column of flags
//	              bit 11      there is a column of user bytes
//	              bits 12-13  codec of the value part
//	              bit 14      there is a least expiry
type blockEntry struct {
	keyOff, valOff       int64
	keyLen, valLen       uint32
	valueLen             uint32
	prefixLen, suffixLen uint16
	count                int
	flags                uint8

	kEnds, vEnds, seqs, expiries    width
	hasFlags, hasUsers, hasExpiries bool
	codec                           codec.ID
}

const (
	blockEntrySize = 32
	// blockEntriesMax is the maximum number of entries in a block.
	blockEntriesMax = 256
	// offsetMax is the largest offset in a file, in bytes.
	offsetMax = 1<<48 - 1

	shapeFlags    = 1 << 10
	shapeUsers    = 1 << 11
	shapeExpiries = 1 << 14
	shapeKnown    = 1<<15 - 1
)

func (e *blockEntry) appendTo(dst []byte) []byte {
	shape := uint16(e.kEnds) | uint16(e.vEnds)<<2 | uint16(e.seqs)<<4 | uint16(e.expiries)<<7 | uint16(e.codec)<<12
	if e.hasFlags {
		shape |= shapeFlags
	}
	if e.hasUsers {
		shape |= shapeUsers
	}
	if e.hasExpiries {
		shape |= shapeExpiries
	}
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(e.keyOff)|uint64(e.count-1)<<48|uint64(e.flags)<<56)
	dst = le.AppendUint64(dst, uint64(e.valOff)|uint64(e.prefixLen)<<48)
	dst = le.AppendUint32(dst, e.keyLen)
	dst = le.AppendUint32(dst, e.valLen)
	dst = le.AppendUint32(dst, e.valueLen)
	dst = le.AppendUint16(dst, e.suffixLen)
	return le.AppendUint16(dst, shape)
}

// decodeBlockEntry is the inverse of blockEntry.appendTo. It decodes any 32
// bytes; check says whether the result is valid.
func decodeBlockEntry(src []byte) blockEntry {
	var e blockEntry
	e.decode(src)
	return e
}

// decode is decodeBlockEntry into an existing entry: it saves a point read the
// copy.
func (e *blockEntry) decode(src []byte) {
	le := binary.LittleEndian
	_ = src[blockEntrySize-1]
	k, v, shape := le.Uint64(src), le.Uint64(src[8:]), le.Uint16(src[30:])
	e.keyOff = int64(k & offsetMax)
	e.valOff = int64(v & offsetMax)
	e.keyLen = le.Uint32(src[16:])
	e.valLen = le.Uint32(src[20:])
	e.valueLen = le.Uint32(src[24:])
	e.prefixLen = uint16(v >> 48)
	e.suffixLen = le.Uint16(src[28:])
	e.count = int(k>>48&0xff) + 1
	e.flags = uint8(k >> 56)

	e.kEnds = width(shape & 3)
	e.vEnds = width(shape >> 2 & 3)
	e.seqs = width(shape >> 4 & 7)
	e.expiries = width(shape >> 7 & 7)
	e.hasFlags = shape&shapeFlags != 0
	e.hasUsers = shape&shapeUsers != 0
	e.hasExpiries = shape&shapeExpiries != 0
	e.codec = codec.ID(shape >> 12 & 3)
}

// keyPartOf decodes only the place of the key part.
func keyPartOf(src []byte) (off, n int64) {
	le := binary.LittleEndian
	_ = src[blockEntrySize-1]
	return int64(le.Uint64(src) & offsetMax), int64(le.Uint32(src[16:]))
}

// valuePartOf decodes only the place of the value part.
func valuePartOf(src []byte) (off, n int64) {
	le := binary.LittleEndian
	_ = src[blockEntrySize-1]
	return int64(le.Uint64(src[8:]) & offsetMax), int64(le.Uint32(src[20:]))
}

// rawLen returns the length of the value part before compression.
func (e *blockEntry) rawLen() int64 {
	if e.vEnds == width0 {
		return int64(e.valueLen) * int64(e.count)
	}
	return int64(e.valueLen)
}

// check reports why e is invalid in a table whose blocks end at dataEnd. off is
// the offset of e itself in the file.
func (e *blockEntry) check(src []byte, off, dataEnd int64) error {
	shape := binary.LittleEndian.Uint16(src[30:])
	switch {
	case shape&^shapeKnown != 0, e.seqs >= widths, e.expiries >= widths, e.codec > codec.Last:
		return base.Corrupt(off, "block shape", shape, "a known shape")
	case e.keyOff > dataEnd-int64(e.keyLen):
		return base.Corrupt(off, "end of a key part", e.keyOff+int64(e.keyLen), dataEnd)
	case e.valOff > dataEnd-int64(e.valLen):
		return base.Corrupt(off, "end of a value part", e.valOff+int64(e.valLen), dataEnd)
	case e.codec == codec.None && e.rawLen() != int64(e.valLen):
		return base.Corrupt(off, "length of a value part", e.valLen, e.rawLen())
	case e.codec != codec.None && e.rawLen() > codec.SizeMax:
		return base.Corrupt(off, "length of a compressed value part", e.rawLen(), codec.SizeMax)
	case e.kEnds != width0 && e.suffixLen != 0:
		return base.Corrupt(off, "length of every suffix", e.suffixLen, 0)
	case e.hasFlags && e.flags != 0:
		return base.Corrupt(off, "flags of every entry", e.flags, 0)
	case !e.hasExpiries && e.expiries != width0:
		return base.Corrupt(off, "width of expiries without a least one", e.expiries, 0)
	}
	return nil
}
