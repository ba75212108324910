package log

import (
	"encoding/binary"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
)

// successorSize is the size of the payload of a segment's Next frame:
//
//	offset  size  field
//	0       8     number of the next segment, one more than this one's
//	8       8     number in the name of its file
//	16      8     its salt
const successorSize = 24

// tailRoom is the number of bytes that records leave free at the end of a
// segment. It holds a Mark, and then a Next frame or the larger closing frames.
const tailRoom = record.FrameHeaderSize + record.CloseRoom

// appendSuccessor appends the encoding of ref to dst.
func appendSuccessor(dst []byte, ref base.SegmentRef) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, ref.Number)
	dst = binary.LittleEndian.AppendUint64(dst, ref.File)
	return binary.LittleEndian.AppendUint64(dst, ref.Salt)
}

// decodeSuccessor is the inverse of appendSuccessor, for the Next frame at
// offset of the segment with the given number.
func decodeSuccessor(p []byte, offset int64, number uint64) (base.SegmentRef, error) {
	if len(p) != successorSize {
		return base.SegmentRef{}, base.Corrupt(offset, "successor size", len(p), successorSize)
	}
	ref := base.SegmentRef{
		Number: binary.LittleEndian.Uint64(p),
		File:   binary.LittleEndian.Uint64(p[8:]),
		Salt:   binary.LittleEndian.Uint64(p[16:]),
	}
	if ref.Number != number+1 {
		return base.SegmentRef{}, base.Corrupt(offset, "successor number", ref.Number, number+1)
	}
	return ref, nil
}

// Successor decodes the payload of a Next frame, for a caller that reads segments by
// itself. It reports false for any other payload.
func Successor(p []byte) (base.SegmentRef, bool) {
	if len(p) != successorSize {
		return base.SegmentRef{}, false
	}
	number := binary.LittleEndian.Uint64(p)
	ref, err := decodeSuccessor(p, 0, number-1)
	return ref, err == nil
}
