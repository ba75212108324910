package values

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// A fileHeader begins every value file. Little-endian:
//
//	offset  size  field
//	0       8     magic
//	8       4     format version
//	12      4     zero
//	16      8     salt
//	24      8     identity: the number that pointers name
//	32      8     checksum of the above
type fileHeader struct {
	salt uint64
	num  base.FileNum
}

const (
	fileHeaderSize = 40
	headerMagic    = 0x68756c617674a7c3
	footerMagic    = 0x66756c617674a7c3
	formatVersion  = 1
)

func (h fileHeader) append(dst []byte) []byte {
	le := binary.LittleEndian
	start := len(dst)
	dst = le.AppendUint64(dst, headerMagic)
	dst = le.AppendUint32(dst, formatVersion)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint64(dst, h.salt)
	dst = le.AppendUint64(dst, uint64(h.num))
	return le.AppendUint64(dst, partSum(h.salt, dst[start:], 0))
}

func decodeFileHeader(src []byte) (fileHeader, error) {
	le := binary.LittleEndian
	if len(src) != fileHeaderSize {
		return fileHeader{}, base.Corrupt(0, "length of a value file's header", len(src), fileHeaderSize)
	}
	if err := checkFixed(src, 0, headerMagic); err != nil {
		return fileHeader{}, err
	}
	if zero := le.Uint32(src[12:]); zero != 0 {
		return fileHeader{}, base.Corrupt(12, "reserved bytes of a value file's header", zero, 0)
	}
	h := fileHeader{salt: le.Uint64(src[16:]), num: base.FileNum(le.Uint64(src[24:]))}
	return h, checkSum(le.Uint64(src[32:]), partSum(h.salt, src[:32], 0), 0, "checksum of a value file's header")
}

// checkFixed checks the magic and the version at the start of the header and of the
// footer.
func checkFixed(src []byte, at int64, magic uint64) error {
	if m := binary.LittleEndian.Uint64(src); m != magic {
		return base.Corrupt(at, "magic of a value file", fmt.Sprintf("%#x", m), fmt.Sprintf("%#x", magic))
	}
	if v := binary.LittleEndian.Uint32(src[8:]); v != formatVersion {
		return base.Corrupt(at+8, "format version of a value file", v, formatVersion)
	}
	return nil
}

// check reports a header that differs from the expected one.
func (h fileHeader) check(want fileHeader) error {
	if h != want {
		return base.Corrupt(16, "salt and number of a value file", fmt.Sprintf("%#x, %d", h.salt, h.num), fmt.Sprintf("%#x, %d", want.salt, want.num))
	}
	return nil
}

// readHeader reads the header of file and compares it with the expected one.
func readHeader(file vfs.File, want fileHeader) error {
	b := make([]byte, fileHeaderSize)
	if err := readFull(file, b, 0); err != nil {
		return err
	}
	h, err := decodeFileHeader(b)
	if err != nil {
		return err
	}
	return h.check(want)
}

// readFull fills b from offset at. If the file ends before, it is corrupt.
func readFull(file vfs.File, b []byte, at int64) error {
	n, err := file.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return base.Corrupt(at, "length of a value file", at+int64(n), fmt.Sprintf("at least %d", at+int64(len(b))))
	}
	return err
}
