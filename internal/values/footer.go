package values

import (
	"encoding/binary"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
)

// A footer ends every sealed file. Little-endian:
//
//	offset  size  field
//	0       8     magic
//	8       4     format version
//	12      4     zero
//	16      8     salt
//	24      8     identity
//	32      8     size of the file
//	40      8     end of the records
//	48      8     count of records
//	56      8     sum of the lengths of the values
//	64      8     length of the shortest record
//	72      8     smallest sequence number
//	80      8     largest sequence number
//	88      4     remap: count of entries, 0 in a file that is not rewritten
//	92      4     remap: count of buckets
//	96      4     remap: bits of an offset that a bucket spans
//	100     4     zero
//	104     8     remap: checksum
//	112     8     checksum of the above
//
// Only the remap lies between the end of the records and the footer. So a checksum
// covers every byte of the file.
type footer struct {
	fileHeader
	size, recordsEnd int64
	values           uint64
	valueBytes       uint64
	shortest         int64
	firstSeq         base.SeqNum
	lastSeq          base.SeqNum
	remap            remapShape
	remapSum         uint64
}

const footerSize = 120

func (f *footer) append(dst []byte) []byte {
	le := binary.LittleEndian
	start := len(dst)
	dst = le.AppendUint64(dst, footerMagic)
	dst = le.AppendUint32(dst, formatVersion)
	dst = le.AppendUint32(dst, 0)
	for _, x := range []uint64{f.salt, uint64(f.num), uint64(f.size), uint64(f.recordsEnd), f.values,
		f.valueBytes, uint64(f.shortest), uint64(f.firstSeq), uint64(f.lastSeq)} {
		dst = le.AppendUint64(dst, x)
	}
	for _, x := range []uint32{f.remap.count, f.remap.buckets, f.remap.shift, 0} {
		dst = le.AppendUint32(dst, x)
	}
	dst = le.AppendUint64(dst, f.remapSum)
	return le.AppendUint64(dst, partSum(f.salt, dst[start:], f.size-footerSize))
}

// decodeFooter decodes the last bytes of a file of the given size.
func decodeFooter(src []byte, size int64) (footer, error) {
	le := binary.LittleEndian
	at := size - footerSize
	if len(src) != footerSize || at < fileHeaderSize {
		return footer{}, base.Corrupt(max(at, 0), "size of a value file", size, fmt.Sprintf("at least %d", fileHeaderSize+footerSize))
	}
	if err := checkFixed(src, at, footerMagic); err != nil {
		return footer{}, err
	}
	word := func(i int) uint64 { return le.Uint64(src[16+8*i:]) }
	f := footer{
		fileHeader: fileHeader{salt: word(0), num: base.FileNum(word(1))},
		size:       int64(word(2)), recordsEnd: int64(word(3)), values: word(4), valueBytes: word(5),
		shortest: int64(word(6)), firstSeq: base.SeqNum(word(7)), lastSeq: base.SeqNum(word(8)),
		remap:    remapShape{count: le.Uint32(src[88:]), buckets: le.Uint32(src[92:]), shift: le.Uint32(src[96:])},
		remapSum: le.Uint64(src[104:]),
	}
	if err := checkSum(le.Uint64(src[112:]), partSum(f.salt, src[:112], at), at, "checksum of a value file's footer"); err != nil {
		return footer{}, err
	}
	return f, f.check(size, le.Uint32(src[12:])|le.Uint32(src[100:]))
}

// decodeRemap verifies and decodes section, the remap of the file.
func (f *footer) decodeRemap(section []byte) (remap, error) {
	if err := checkSum(partSum(f.salt, section, f.recordsEnd), f.remapSum, f.recordsEnd, "checksum of a remap"); err != nil {
		return remap{}, err
	}
	return decodeRemap(f.remap, section, f.recordsEnd, f.recordsEnd)
}

// check reports why the layout is invalid. It bounds each number before it adds it,
// so that nothing overflows.
func (f *footer) check(size int64, zero uint32) error {
	at := size - footerSize
	switch {
	case zero != 0:
		return base.Corrupt(at+12, "reserved bytes of a value file's footer", zero, 0)
	case f.size != size:
		return base.Corrupt(at+32, "size of a value file", size, f.size)
	case f.recordsEnd < fileHeaderSize || f.recordsEnd > at || f.recordsEnd%unit != 0:
		return base.Corrupt(at+40, "end of the records", f.recordsEnd, "within the file")
	case f.values > uint64(f.recordsEnd/recordMin):
		return base.Corrupt(at+48, "count of records", f.values, "a number that fits the file")
	case f.values > 0 && (f.shortest < recordMin || f.shortest > f.recordsEnd):
		return base.Corrupt(at+64, "length of the shortest record", f.shortest, "the length of a record")
	case f.remap.count > 0 && uint64(f.remap.count) != f.values:
		return base.Corrupt(at+88, "count of the remap's entries", f.remap.count, f.values)
	case f.remap.count == 0 && f.remapSum != 0:
		return base.Corrupt(at+104, "checksum of a file without a remap", f.remapSum, 0)
	}
	if err := f.remap.check(at+88, at-f.recordsEnd); err != nil {
		return err
	}
	return nil
}
