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
	// FormatVersion is the version of files that this code writes, and the
	// only one it reads.
	FormatVersion = 1

	// NumberMax is the largest number that a header may hold.
	NumberMax = 1<<62 - 1

	// pageSize is more than any device damages at once: what must not be lost
	// together stands in different pages.
	pageSize   = 4096
	headerSize = 56
)

// A Type says what the records of a file are. It is the first 8 bytes.
type Type [8]byte

// The types.
var (
	TypeLog      = Type{'s', 't', 'o', 'a', 't', 'L', 'O', 'G'}
	TypeManifest = Type{'s', 't', 'o', 'a', 't', 'M', 'A', 'N'}
)

// A Header describes one life of one file of records. It is stored twice, at
// offsets 0 and 4096, each copy little-endian:
//
//	offset  size  field
//	0       8     type: "stoatLOG" or "stoatMAN"
//	8       4     format version, 1
//	12      4     zero
//	16      8     number: the place of this file among its like
//	24      8     file: the number in the file's name
//	32      8     salt: what distinguishes this life from earlier ones
//	40      8     size of the file in bytes
//	48      8     checksum of the bytes 0 to 47, seeded by the copy's offset
//
// The rest of the two pages means nothing.
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

// decodeHeader decodes the copy of a header of type t that stands at offset.
// It reports false for bytes that are not such a header. The error is
// base.ErrVersion.
func decodeHeader(b []byte, t Type, offset uint64) (Header, bool, error) {
	if Type(b[:8]) != t || base.Checksum(b[:48], offset) != binary.LittleEndian.Uint64(b[48:]) {
		return Header{}, false, nil
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != FormatVersion {
		return Header{}, false, fmt.Errorf("%w: format version %d, this one knows %d", base.ErrVersion, v, FormatVersion)
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

// ReadHeaders returns the intact and distinct copies of the header of a file
// of type t and the given size: usually one, none when both copies are damaged
// or were never written, and two when a crash fell into the beginning of a new
// life of the file. The error is that of reading, or base.ErrVersion.
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
