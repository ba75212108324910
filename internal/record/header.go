package record

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
)

const (
	// Start is the offset of the first frame of a file.
	Start = 2 * pageSize
	// FormatVersion is the only version of files that this code writes and
	// reads.
	FormatVersion = 1

	// NumberMax is the largest Number and File of a header.
	NumberMax = 1<<62 - 1

	// pageSize is larger than what a device damages at once, in bytes. Things
	// that must not be lost together are in different pages.
	pageSize   = 4096
	headerSize = 56
)

// A Type says what the records of a file are. It is the first 8 bytes of the
// file.
type Type [8]byte

// The types.
var (
	TypeLog      = Type{'s', 't', 'o', 'a', 't', 'L', 'O', 'G'}
	TypeManifest = Type{'s', 't', 'o', 'a', 't', 'M', 'A', 'N'}
)

// A Header describes one use of a file of records. It is stored twice, at
// offsets 0 and 4096, each copy little-endian:
//
//	offset  size  field
//	0       8     type: "stoatLOG" or "stoatMAN"
//	8       4     format version, 1
//	12      4     zero
//	16      8     number: the position of this file among files of its type
//	24      8     file: the number in the file's name
//	32      8     salt: what distinguishes this use of the file from others
//	40      8     size of the file in bytes
//	48      8     checksum of the bytes 0 to 47, seeded by the copy's offset
//
// The rest of the two pages has no meaning.
type Header struct {
	Type   Type
	Number uint64
	File   uint64
	Salt   uint64
	Size   int64
}

// AppendHeader appends the two pages of h, Start bytes, to dst.
func AppendHeader(dst []byte, h Header) []byte {
	for offset := range uint64(2) {
		page := make([]byte, pageSize)
		copy(page, h.Type[:])
		binary.LittleEndian.PutUint32(page[8:], FormatVersion)
		binary.LittleEndian.PutUint64(page[16:], h.Number)
		binary.LittleEndian.PutUint64(page[24:], h.File)
		binary.LittleEndian.PutUint64(page[32:], h.Salt)
		binary.LittleEndian.PutUint64(page[40:], uint64(h.Size))
		binary.LittleEndian.PutUint64(page[48:], base.Checksum(page[:48], offset*pageSize))
		dst = append(dst, page...)
	}
	return dst
}

// decodeHeader decodes the copy of a header of type t at offset. It reports
// false for bytes that are no such header. Its only error is base.ErrVersion.
func decodeHeader(b []byte, t Type, offset uint64) (Header, bool, error) {
	if Type(b[:8]) != t || base.Checksum(b[:48], offset) != binary.LittleEndian.Uint64(b[48:]) {
		return Header{}, false, nil
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != FormatVersion {
		return Header{}, false, fmt.Errorf("%w: format version %d, this version of stoat knows %d", base.ErrVersion, v, FormatVersion)
	}
	h := Header{
		Type:   t,
		Number: binary.LittleEndian.Uint64(b[16:]),
		File:   binary.LittleEndian.Uint64(b[24:]),
		Salt:   binary.LittleEndian.Uint64(b[32:]),
		Size:   int64(binary.LittleEndian.Uint64(b[40:])),
	}
	unused := binary.LittleEndian.Uint32(b[12:])
	return h, unused == 0 && h.Size >= Start && max(h.Number, h.File) <= NumberMax, nil
}

// ReadHeaders returns the intact and distinct copies of the header of a file of
// type t and the given size. Usually there is one. There is none if both copies
// are damaged or were never written. There are two if a crash interrupted the
// beginning of a new use of the file. The error is a read error or
// base.ErrVersion.
func ReadHeaders(src io.ReaderAt, size int64, t Type) ([]Header, error) {
	var found []Header
	for _, offset := range []int64{0, pageSize} {
		var b [headerSize]byte
		if offset+headerSize > size {
			break
		}
		if n, err := src.ReadAt(b[:], offset); n < headerSize {
			return nil, shortRead(offset, n, headerSize, err)
		}
		h, ok, err := decodeHeader(b[:], t, uint64(offset))
		if err != nil {
			return nil, err
		}
		if ok && (len(found) == 0 || found[0] != h) {
			found = append(found, h)
		}
	}
	return found, nil
}
