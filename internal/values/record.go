package values

import (
	"encoding/binary"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// A header begins every record, which is aligned to 8 bytes. Little-endian:
//
//	offset  size  field
//	0       8     checksum
//	8       8     sequence number
//	16      4     length of the value
//	20      4     length of the value as stored
//	24      4     length of the key
//	28      1     codec of the value, see codec.ID
//	29      3     zero
//
// Then follow the key, the value as stored, and zeros to a multiple of 8. A stored
// value longer than 256 KiB is chunked: behind the zeros are 8 bytes for each chunk of
// 256 KiB, its checksum. So a part of a large value can be read and verified alone.
//
// The checksum of a record covers everything behind it. In a chunked record it covers
// the rest of the header and the key. Its seed is the checksum of the bytes behind the
// value, which in turn cover the chunks.
type header struct {
	sum                         uint64
	seq                         base.SeqNum
	valueLen, storedLen, keyLen uint32
	codec                       codec.ID
}

const (
	headerSize = 32
	chunkSize  = 256 << 10
	sumSize    = 8
	// recordMin is the size of the smallest record, that of an empty value.
	recordMin = headerSize + unit
	// recordMax is the size of the record of the largest key and value.
	recordMax = headerSize + base.MaxKeySize + (base.MaxValueSize+1)/chunkSize*(chunkSize+sumSize)
)

const (
	// compressMin and compressMax are the lengths in bytes of the shortest and
	// the longest compressed value. Parts of a longer value can be read alone.
	// The limit also bounds the memory that a small hostile record can cost.
	compressMin = 256
	compressMax = chunkSize
)

// alignUp returns n rounded up to a multiple of the unit.
func alignUp(n int64) int64 { return (n + unit - 1) &^ (unit - 1) }

func (h *header) valueOff() int64  { return headerSize + int64(h.keyLen) }
func (h *header) valueEnd() int64  { return h.valueOff() + int64(h.storedLen) }
func (h *header) chunked() bool    { return h.storedLen > chunkSize }
func (h *header) compressed() bool { return h.codec != codec.None }

// chunks returns the number of checksums of chunks in the record.
func (h *header) chunks() int64 {
	if !h.chunked() {
		return 0
	}
	return (int64(h.storedLen) + chunkSize - 1) / chunkSize
}

// size returns the length of the record.
func (h *header) size() int64 { return alignUp(h.valueEnd()) + sumSize*h.chunks() }

// append appends the header, with its current checksum.
func (h *header) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, h.sum)
	dst = le.AppendUint64(dst, uint64(h.seq))
	dst = le.AppendUint32(dst, h.valueLen)
	dst = le.AppendUint32(dst, h.storedLen)
	dst = le.AppendUint32(dst, h.keyLen)
	return append(dst, byte(h.codec), 0, 0, 0)
}

// loadHeader decodes a header without checking it.
func loadHeader(src []byte) header {
	le := binary.LittleEndian
	return header{
		sum: le.Uint64(src), seq: base.SeqNum(le.Uint64(src[8:])),
		valueLen: le.Uint32(src[16:]), storedLen: le.Uint32(src[20:]), keyLen: le.Uint32(src[24:]),
		codec: codec.ID(src[28]),
	}
}

// decodeHeader decodes the header of the record at offset at, which must not extend
// beyond end.
func decodeHeader(src []byte, at, end int64) (header, error) {
	if len(src) < headerSize {
		return header{}, base.Corrupt(at, "length of a record's header", len(src), headerSize)
	}
	h := loadHeader(src)
	switch {
	case h.seq > base.SeqNumMax:
		return h, base.Corrupt(at+8, "sequence number of a record", uint64(h.seq), "at most 48 bits")
	case h.keyLen == 0 || h.keyLen > base.MaxKeySize:
		return h, base.Corrupt(at+24, "length of a record's key", h.keyLen, fmt.Sprintf("1 to %d", base.MaxKeySize))
	case h.codec > codec.Last || src[29]|src[30]|src[31] != 0:
		return h, base.Corrupt(at+28, "codec of a record", fmt.Sprintf("%#x", src[28:32]), "a known one")
	case h.compressed() && (h.storedLen >= h.valueLen || h.valueLen > compressMax):
		return h, base.Corrupt(at+16, "length of a compressed value", h.valueLen, fmt.Sprintf("above %d, at most %d", h.storedLen, compressMax))
	case !h.compressed() && h.storedLen != h.valueLen:
		return h, base.Corrupt(at+20, "stored length of a value", h.storedLen, h.valueLen)
	case h.size() > end-at:
		return h, base.Corrupt(at, "end of a record", at+h.size(), fmt.Sprintf("at most %d", end))
	}
	return h, nil
}

// seedAt returns the seed for the checksum of bytes at off. The offset is mixed in, so
// that moved bytes do not verify.
func seedAt(salt uint64, off int64) uint64 { return salt ^ uint64(off)*0x9e3779b97f4a7c15 }

func partSum(salt uint64, b []byte, off int64) uint64 { return base.Checksum(b, seedAt(salt, off)) }

// headSum returns the checksum of a chunked record at offset at. head is its header and
// key, tail is the part behind its value.
func headSum(salt uint64, at int64, head, tail []byte, tailOff int64) uint64 {
	return base.Checksum(head[sumSize:], seedAt(salt, at)^partSum(salt, tail, tailOff))
}

// recordSum returns the correct checksum of rec, the record at offset at.
func (h *header) recordSum(salt uint64, at int64, rec []byte) uint64 {
	if !h.chunked() {
		return partSum(salt, rec[sumSize:], at)
	}
	return headSum(salt, at, rec[:h.valueOff()], rec[h.valueEnd():], at+h.valueEnd())
}

// checkRecord verifies rec, the whole record at offset at.
func (h *header) checkRecord(salt uint64, at int64, rec []byte) error {
	if err := checkSum(h.recordSum(salt, at, rec), h.sum, at, "checksum of a value's record"); err != nil {
		return err
	}
	if err := h.checkPadding(rec[h.valueEnd():], at); err != nil {
		return err
	}
	sums := rec[alignUp(h.valueEnd()):]
	for i := range h.chunks() {
		from := h.valueOff() + i*chunkSize
		chunk := rec[from:min(from+chunkSize, h.valueEnd())]
		if err := checkSum(partSum(salt, chunk, at+from), binary.LittleEndian.Uint64(sums[sumSize*i:]), at+from, "checksum of a part of a value"); err != nil {
			return err
		}
	}
	return nil
}

// checkPadding checks the zeros at the beginning of tail, the part behind the value of the
// record at offset at.
func (h *header) checkPadding(tail []byte, at int64) error {
	for i, b := range tail[:alignUp(h.valueEnd())-h.valueEnd()] {
		if b != 0 {
			return base.Corrupt(at+h.valueEnd()+int64(i), "byte behind a value", b, 0)
		}
	}
	return nil
}

func checkSum(got, want uint64, off int64, what string) error {
	if got == want {
		return nil
	}
	return base.Corrupt(off, what, fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", want))
}
