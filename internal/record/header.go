package record

import (
	"crypto/cipher"
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
	headerSize = 120

	// plainSize is the length in bytes of what every header has. A sealed header has
	// more.
	plainSize = 56
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
//	12      4     1 if the frames are sealed, otherwise 0
//	16      8     number: the position of this file among files of its type
//	24      8     file: the number in the file's name
//	32      8     salt: what distinguishes this use of the file from others
//	40      8     size of the file in bytes
//	48      8     checksum of the bytes 0 to 47, seeded by the copy's offset
//
// A sealed header continues:
//
//	56      4     data key from which the key of this use is derived
//	60      4     zero
//	64      32    salt of that key
//	96      16    tag of the bytes 0 to 47 and 56 to 95 under that key
//	112     8     checksum of the bytes 56 to 111, seeded by the copy's offset
//
// The rest of the two pages has no meaning.
type Header struct {
	Type   Type
	Number uint64
	File   uint64
	Salt   uint64
	Size   int64
	// Key and Tag are zero in a plain file.
	Key base.KeyRef
	Tag [tagSize]byte
}

// label returns what the key of this use of the file is derived for.
func (h *Header) label() string {
	return fmt.Sprintf("%s %d file %d salt %x size %d", h.Type[:], h.Number, h.File, h.Salt, h.Size)
}

// fixed returns the bytes that the tag authenticates.
func (h *Header) fixed() []byte {
	b := make([]byte, 0, 88)
	b = append(b, h.Type[:]...)
	b = binary.LittleEndian.AppendUint32(b, FormatVersion)
	b = binary.LittleEndian.AppendUint32(b, sealedFlag(h.Key.Sealed()))
	b = binary.LittleEndian.AppendUint64(b, h.Number)
	b = binary.LittleEndian.AppendUint64(b, h.File)
	b = binary.LittleEndian.AppendUint64(b, h.Salt)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Size))
	if !h.Key.Sealed() {
		return b
	}
	b = binary.LittleEndian.AppendUint32(b, h.Key.ID)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return append(b, h.Key.Salt[:]...)
}

func sealedFlag(sealed bool) uint32 {
	if sealed {
		return 1
	}
	return 0
}

// Seal gives a new use of a file its key, and returns the cipher of its frames. Without
// a Sealer the file stays plain and the cipher is nil.
func (h *Header) Seal(s Sealer) (cipher.AEAD, error) {
	if s == nil {
		return nil, nil
	}
	key, aead, err := s.NewFile(h.label())
	if err != nil {
		return nil, err
	}
	h.Key = key
	copy(h.Tag[:], aead.Seal(nil, headerNonce[:], nil, h.fixed()))
	return aead, nil
}

// Open returns the cipher of a file that exists. A plain file in an encrypted database,
// or a sealed file in a plain one, is corrupt.
func (h *Header) Open(s Sealer) (cipher.AEAD, error) {
	if sealed := h.Key.Sealed(); sealed != (s != nil) {
		return nil, base.Corrupt(12, "sealed file", sealed, s != nil)
	}
	if s == nil {
		return nil, nil
	}
	aead, err := s.OpenFile(h.Key, h.label())
	if err != nil {
		return nil, err
	}
	if _, err := aead.Open(nil, headerNonce[:], h.Tag[:], h.fixed()); err != nil {
		return nil, base.Corrupt(96, "sealed header", "a wrong tag", "the tag of its contents")
	}
	return aead, nil
}

// AppendHeader appends the two pages of h, Start bytes, to dst.
func AppendHeader(dst []byte, h Header) []byte {
	fixed := h.fixed()
	for offset := range uint64(2) {
		page := make([]byte, pageSize)
		copy(page, fixed[:48])
		binary.LittleEndian.PutUint64(page[48:], base.Checksum(page[:48], offset*pageSize))
		if h.Key.Sealed() {
			copy(page[56:], fixed[48:])
			copy(page[96:], h.Tag[:])
			binary.LittleEndian.PutUint64(page[112:], base.Checksum(page[56:112], offset*pageSize))
		}
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
	if h.Size < Start || max(h.Number, h.File) > NumberMax {
		return h, false, nil
	}
	switch binary.LittleEndian.Uint32(b[12:]) {
	case sealedFlag(false):
		return h, true, nil
	case sealedFlag(true):
		return h, h.decodeKey(b, offset), nil
	}
	return h, false, nil
}

// decodeKey decodes what a sealed header has beside others.
func (h *Header) decodeKey(b []byte, offset uint64) bool {
	if base.Checksum(b[56:112], offset) != binary.LittleEndian.Uint64(b[112:]) {
		return false
	}
	h.Key.ID = binary.LittleEndian.Uint32(b[56:])
	copy(h.Key.Salt[:], b[64:])
	copy(h.Tag[:], b[96:])
	return h.Key.Sealed() && binary.LittleEndian.Uint32(b[60:]) == 0
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
