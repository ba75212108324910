package values

import (
	"encoding/binary"
	"math"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// A Pointer locates one record. A table stores it in place of the value. On
// disk it is 16 bytes, little-endian:
//
//	offset  size  field
//	0       4     identity of the file
//	4       4     offset of the record in units of 8 bytes
//	8       4     length of the record in units of 8 bytes
//	12      4     length of the value, as the user gave it
//	16      8     version of the record, if it is not that of the entry
//
// A renewed value keeps its record, so the pointer of the renewed entry names the version
// of the record. Other pointers are 16 bytes.
//
// The offset is that in the original file. It stays when garbage collection rewrites
// the file. The length of the record is stored so that one request fetches the record.
// A compaction that drops a pointer also learns the new garbage from it, without
// reading the file.
//
// A Pointer has four fields and 32 bytes, because the compiler keeps no larger struct in
// registers. In memory a Pointer would make scans of large values a fifth slower.
type Pointer struct {
	File   base.FileNum
	Offset int64
	// Version is the version in the record, or 0 if it is that of the entry.
	Version base.SeqNum
	lengths
}

// The lengths of a Pointer.
type lengths struct {
	// units is the size of the whole record: header, key, value, padding.
	units uint32
	// ValueLen is the length of the value before compression.
	ValueLen uint32
}

// NewPointer returns the pointer to a record of length bytes, which has the version of
// its entry.
func NewPointer(file base.FileNum, offset, length int64, valueLen uint32) Pointer {
	invariant.Check(length%unit == 0 && length/unit <= math.MaxUint32, "a pointer holds the length of its record: %d", length)
	return Pointer{File: file, Offset: offset, lengths: lengths{units: uint32(length / unit), ValueLen: valueLen}}
}

// Length returns the size of the whole record in bytes.
func (p Pointer) Length() int64 { return int64(p.units) * unit }

// Of returns the version of the record that p leads to, of an entry of version seq.
func (p Pointer) Of(seq base.SeqNum) base.SeqNum {
	if p.Version != 0 {
		return p.Version
	}
	return seq
}

const (
	// PointerSize is the encoded size of a Pointer without a version.
	PointerSize = 16
	// pointerSizeMax is the encoded size of a Pointer with a version.
	pointerSizeMax = PointerSize + 8
	// unit is the alignment of records in bytes.
	unit = 8
	// offsetMax is the largest offset in a pointer, just below 32 GiB. The
	// writer closes a file far below that, or the file holds a single value.
	offsetMax = int64(math.MaxUint32) * unit
)

// RefBytes returns the number of bytes of the value file that p keeps alive: the size
// of the record.
func RefBytes(p Pointer) uint64 { return uint64(p.Length()) }

// Repeats finds pointers of a table to records that are counted already. Several versions of
// a key may share a record, because a renewal keeps it. Their pointers follow each other, and
// the record counts once. The zero value has met no pointer.
type Repeats struct{ last [PointerSize]byte }

// Next reports whether the next pointer, which is encoded, leads to the record of the one
// before it.
func (r *Repeats) Next(pointer []byte) bool {
	at := [PointerSize]byte(pointer)
	repeated := at == r.last
	r.last = at
	return repeated
}

// AppendTo appends the encoding of p to dst.
func (p Pointer) AppendTo(dst []byte) []byte {
	invariant.Check(p.File <= math.MaxUint32, "a pointer holds the number of its file: %d", p.File)
	invariant.Check(p.Offset >= fileHeaderSize, "a record lies behind the header: %d", p.Offset)
	invariant.Check(p.Offset <= offsetMax, "a pointer holds the offset of its record: %d", p.Offset)
	invariant.Check(p.Offset%unit == 0, "records are aligned: %+v", p)
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, uint32(p.File))
	dst = le.AppendUint32(dst, uint32(p.Offset/unit))
	dst = le.AppendUint32(dst, p.units)
	dst = le.AppendUint32(dst, p.ValueLen)
	if p.Version != 0 {
		dst = le.AppendUint64(dst, uint64(p.Version))
	}
	return dst
}

// Renewed returns the pointer of a renewed entry to the record of an entry of version
// seq, which has the given pointer.
func Renewed(pointer []byte, seq base.SeqNum) ([]byte, error) {
	p, err := DecodePointer(pointer)
	if err != nil {
		return nil, err
	}
	p.Version = p.Of(seq)
	return p.AppendTo(make([]byte, 0, pointerSizeMax)), nil
}

// DecodePointer is the inverse of Pointer.AppendTo.
func DecodePointer(src []byte) (Pointer, error) {
	le := binary.LittleEndian
	version := base.SeqNum(0)
	switch len(src) {
	case PointerSize:
	case pointerSizeMax:
		version = base.SeqNum(le.Uint64(src[PointerSize:]))
		if version == 0 || version > base.SeqNumMax {
			return Pointer{}, base.Corrupt(-1, "version in a value pointer", uint64(version), "1 to 2^48-1")
		}
	default:
		return Pointer{}, base.Corrupt(-1, "length of a value pointer", len(src), PointerSize)
	}
	b := (*[PointerSize]byte)(src) // the bounds of all fields are checked at once
	p := Pointer{
		File:    base.FileNum(le.Uint32(b[0:4])),
		Offset:  int64(le.Uint32(b[4:8])) * unit,
		Version: version,
		lengths: lengths{units: le.Uint32(b[8:12]), ValueLen: le.Uint32(b[12:16])},
	}
	if p.Offset < fileHeaderSize {
		return Pointer{}, base.Corrupt(-1, "offset in a value pointer", p.Offset, "behind the header")
	}
	if p.Length() < recordMin || p.Length() > recordMax {
		return Pointer{}, base.Corrupt(-1, "length in a value pointer", p.Length(), "the length of a record")
	}
	return p, nil
}
