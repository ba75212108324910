package manifest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// A list of items is the value of a field. Each item is preceded by its
// length:
//
//	offset  size  field
//	0       4     n, the length of the item in bytes
//	4       n     item

const (
	// placeSize is the size of an encoded Place in bytes: level (1), number (8).
	placeSize = 9
	// fileNumSize is the size of an encoded file number in bytes.
	fileNumSize = 8
	// valueFileSize is the size of an encoded ValueFile in bytes: 8 for each
	// number, in the order of appendValueFile. An encoding without the last
	// number, which is then 0, has valueFileSizeMin bytes.
	valueFileSize    = 72
	valueFileSizeMin = 64
	// tableFixedSize is the size in bytes of the part before the bounds in an
	// encoded Table without a key count:
	//
	//	offset  size  field
	//	0       1     level
	//	1       1     bit 0: the largest bound is exclusive; bit 1: the keys
	//	              are counted; bit 2: there are partial entries;
	//	              bit 3: there are discard points; bit 4: sequence
	//	              numbers are shifted; bit 5: there are expiry times;
	//	              bit 6: jumps are counted; bit 7: references are varints
	//	2       128   8 for each number, in the order of tableNumbers
	//	130     4     length of the smallest bound, at least 1
	//	134     4     length of the largest bound; 0 for base.EndOfKeys
	//	138     8     count of keys, if they are counted, at least 1
	//	...     8     count of partial entries, if there are any
	//	...     8     shift of sequence numbers, if it is not 0
	//	...     8     jumps, if they are not 0
	//	...     16    TenthOutdated and HalfOutdated, if there are discard points
	//	...     16    TenthExpired and HalfExpired, if there are expiry times
	//	...     ...   smallest bound, largest bound
	//	...     ...   references; see ValueRefs. Older databases have 16 bytes for each
	//	              without bit 7, and then the jumps without bit 6
	tableFixedSize = 138
	tableLengths   = 130 // offset of the lengths of the bounds
	tableCountSize = 8
	longRefSize    = 16
	// tableSizeMax is the most bytes that an encoded Table takes in a list, its length
	// included, without bounds and references.
	tableSizeMax = 4 + tableFixedSize + 8*tableCountSize
	// listMax is the greatest length of a list in bytes.
	listMax = int64(math.MaxUint32)
)

// The bits of byte 1 of an encoded Table.
const (
	boundExclusive = 1
	keysCounted    = 2
	hasPartials    = 4
	hasOutdated    = 8
	isShifted      = 16
	hasExpired     = 32
	hasJumps       = 64
	shortRefs      = 128
)

// appendItems appends a list field, unless the list is empty.
func appendItems[T any](dst []byte, t tag, items []T, appendItem func(dst []byte, item T) []byte) []byte {
	if len(items) == 0 {
		return dst
	}
	dst = appendField(dst, t, 0)
	start := len(dst)
	for _, item := range items {
		dst = append(dst, 0, 0, 0, 0)
		at := len(dst)
		dst = appendItem(dst, item)
		putLength(dst, at)
	}
	putLength(dst, start)
	return dst
}

// checkLists returns an error if the list of added tables is too long to be encoded. Tables
// refer to value files, so their number times that of value files counts. The other lists
// are much shorter.
func (e *Edit) checkLists() error {
	n := int64(0)
	for _, t := range e.AddTables {
		n += tableSizeMax + int64(len(t.Smallest)+len(t.Largest)+len(t.Values.encoded))
	}
	if n > listMax {
		return fmt.Errorf("manifest: the list of %d tables takes %d bytes, want at most %d", len(e.AddTables), n, listMax)
	}
	return nil
}

// putLength stores the length of dst[start:] in the 4 bytes before start.
func putLength(dst []byte, start int) {
	n := len(dst) - start
	invariant.Check(int64(n) <= listMax, "a list of %d bytes in an edit", n)
	binary.LittleEndian.PutUint32(dst[start-4:], uint32(n))
}

// decodeItems is the inverse of appendItems for the field value v, which is at
// offset. Its allocations are proportional to the length of v.
func decodeItems[T any](v []byte, offset int64, decodeItem func(item []byte, offset int64) (T, error)) ([]T, error) {
	if len(v) == 0 {
		return nil, base.Corrupt(offset, "list in an edit", "no items", "one or more")
	}
	var items []T
	for len(v) > 0 {
		if len(v) < 4 {
			return nil, base.Corrupt(offset, "item length size", len(v), 4)
		}
		n := binary.LittleEndian.Uint32(v)
		v, offset = v[4:], offset+4
		if int64(n) > int64(len(v)) {
			return nil, base.Corrupt(offset-4, "item length", n, fmt.Sprintf("at most %d", len(v)))
		}
		item, err := decodeItem(v[:n], offset)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		v, offset = v[n:], offset+int64(n)
	}
	return items, nil
}

func appendPlace(dst []byte, p Place) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, levelByte(p.Level)), uint64(p.Num))
}

func decodePlace(v []byte, offset int64) (Place, error) {
	if len(v) != placeSize {
		return Place{}, base.Corrupt(offset, "size of a dropped table", len(v), placeSize)
	}
	return Place{Level: int(v[0]), Num: base.FileNum(binary.LittleEndian.Uint64(v[1:]))}, nil
}

// levelByte returns the encoding of a level. Apply checks that the level exists.
func levelByte(level int) byte {
	invariant.Check(level >= 0 && level <= math.MaxUint8, "level %d in an edit", level)
	return byte(level)
}

func appendFileNum(dst []byte, n base.FileNum) []byte {
	return binary.LittleEndian.AppendUint64(dst, uint64(n))
}

func decodeFileNum(v []byte, offset int64) (base.FileNum, error) {
	if len(v) != fileNumSize {
		return 0, base.Corrupt(offset, "size of a dropped value file", len(v), fileNumSize)
	}
	return base.FileNum(binary.LittleEndian.Uint64(v)), nil
}

func appendValueFile(dst []byte, f *ValueFile) []byte {
	for _, n := range [...]uint64{uint64(f.Num), uint64(f.File), uint64(f.Size), f.Salt,
		f.Values, f.Bytes, uint64(f.FirstSeq), uint64(f.LastSeq)} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	if f.ValueBytes != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, f.ValueBytes)
	}
	return dst
}

func decodeValueFile(v []byte, offset int64) (*ValueFile, error) {
	if len(v) != valueFileSize && len(v) != valueFileSizeMin {
		return nil, base.Corrupt(offset, "size of a value file's entry", len(v), valueFileSize)
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(v[8*i:]) }
	f := &ValueFile{
		Num: base.FileNum(number(0)), File: base.FileNum(number(1)), Size: int64(number(2)), Salt: number(3),
		Values: number(4), Bytes: number(5), FirstSeq: base.SeqNum(number(6)), LastSeq: base.SeqNum(number(7)),
	}
	if len(v) == valueFileSizeMin {
		return f, nil
	}
	if f.ValueBytes = number(8); f.ValueBytes == 0 {
		return nil, base.Corrupt(offset+valueFileSizeMin, "sum of the lengths of values", 0, "more, or left out")
	}
	return f, nil
}

// tableNumbers returns the numbers of t in the order of the format.
func tableNumbers(t *Table) [16]uint64 {
	return [16]uint64{
		uint64(t.Num), uint64(t.Size), t.Salt, t.Run, uint64(t.SmallestSeq), uint64(t.LargestSeq),
		t.Entries, t.Deletions, t.RangeDeletions, t.Expiring, t.Pointers,
		t.OldestExpiry, t.NewestExpiry, t.KeyBytes, t.ValueBytes, t.CreatedMs,
	}
}

func appendTable(dst []byte, t *Table) []byte {
	bits := byte(0)
	if t.LargestExclusive {
		bits |= boundExclusive
	}
	if t.Keys != 0 {
		bits |= keysCounted
	}
	if t.Partials != 0 {
		bits |= hasPartials
	}
	if t.SeqShift != 0 {
		bits |= isShifted
	}
	if t.Jumps != 0 {
		bits |= hasJumps
	}
	if len(t.Values.encoded) > 0 {
		bits |= shortRefs
	}
	if t.TenthOutdated != 0 {
		bits |= hasOutdated
	}
	if t.TenthExpired != 0 {
		bits |= hasExpired
	}
	dst = append(dst, levelByte(t.Level), bits)
	for _, n := range tableNumbers(t) {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	largest := base.StoredBound(t.Largest)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(t.Smallest)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(largest)))
	if t.Keys != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, t.Keys)
	}
	if t.Partials != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, t.Partials)
	}
	if t.SeqShift != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(t.SeqShift))
	}
	if t.Jumps != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, t.Jumps)
	}
	if t.TenthOutdated != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, t.TenthOutdated)
		dst = binary.LittleEndian.AppendUint64(dst, t.HalfOutdated)
	}
	if t.TenthExpired != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, t.TenthExpired)
		dst = binary.LittleEndian.AppendUint64(dst, t.HalfExpired)
	}
	dst = append(append(dst, t.Smallest...), largest...)
	return append(dst, t.Values.encoded...)
}

// decodeTable is the inverse of appendTable. The table does not alias v.
func decodeTable(v []byte, offset int64) (*Table, error) {
	if len(v) < tableFixedSize {
		return nil, base.Corrupt(offset, "size of a table's entry", len(v), fmt.Sprintf("at least %d", tableFixedSize))
	}
	smallest := int64(binary.LittleEndian.Uint32(v[tableLengths:]))
	largest := int64(binary.LittleEndian.Uint32(v[tableLengths+4:]))
	counts, fixed, err := decodeCounts(v, offset)
	if err != nil {
		return nil, err
	}
	tenth, half, fixed, err := decodeParts(v, offset, fixed, hasOutdated, "discard points of a table")
	if err != nil {
		return nil, err
	}
	tenthExpired, halfExpired, fixed, err := decodeParts(v, offset, fixed, hasExpired, "expiry times of a table")
	if err != nil {
		return nil, err
	}
	rest := int64(len(v)) - fixed
	exclusive := v[1]&boundExclusive != 0
	switch {
	case smallest == 0 || smallest > base.MaxKeySize:
		return nil, base.Corrupt(offset+tableLengths, "length of a table's smallest bound", smallest, fmt.Sprintf("1 to %d", base.MaxKeySize))
	case largest == 0 && !exclusive || largest > base.MaxKeySize:
		return nil, base.Corrupt(offset+tableLengths+4, "length of a table's largest bound", largest,
			fmt.Sprintf("1 to %d, or 0 and exclusive", base.MaxKeySize))
	case smallest+largest > rest:
		return nil, base.Corrupt(offset+tableLengths, "length of a table's bounds", smallest+largest,
			fmt.Sprintf("at most %d", rest))
	}
	end := fixed + smallest + largest
	decodeRefs := decodeValueRefs
	if v[1]&shortRefs == 0 {
		decodeRefs = counts.decodeLongRefs
	}
	refs, err := decodeRefs(v[end:], offset+end)
	if err != nil {
		return nil, err
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(v[2+8*i:]) }
	bounds := append([]byte{}, v[fixed:fixed+smallest+largest]...)
	return &Table{
		Level: int(v[0]), LargestExclusive: exclusive,
		Num: base.FileNum(number(0)), Size: int64(number(1)), Salt: number(2), Run: number(3),
		SmallestSeq: base.SeqNum(number(4)), LargestSeq: base.SeqNum(number(5)),
		Entries: number(6), Keys: counts.keys, Partials: counts.partials, SeqShift: base.SeqNum(counts.shift), Deletions: number(7), RangeDeletions: number(8), Expiring: number(9), Pointers: number(10),
		OldestExpiry: number(11), NewestExpiry: number(12), TenthOutdated: tenth, HalfOutdated: half,
		TenthExpired: tenthExpired, HalfExpired: halfExpired,
		KeyBytes: number(13), ValueBytes: number(14), CreatedMs: number(15),
		Smallest: bounds[:smallest:smallest], Largest: base.LoadedBound(bounds[smallest:]),
		Values: refs, Jumps: counts.jumps,
	}, nil
}

// counts are the numbers of an encoded table that are left out if they are 0.
type counts struct{ keys, partials, shift, jumps uint64 }

// decodeCounts returns the counts of an encoded table, and the size of the part before
// its bounds. v has at least the fixed part.
func decodeCounts(v []byte, offset int64) (n counts, fixed int64, err error) {
	fixed = tableFixedSize
	for _, c := range []struct {
		bit   byte
		what  string
		count *uint64
	}{{keysCounted, "count of keys of a table", &n.keys}, {hasPartials, "count of partial entries of a table", &n.partials},
		{isShifted, "shift of the versions of a table", &n.shift}, {hasJumps, "jumps of a table", &n.jumps}} {
		if v[1]&c.bit == 0 {
			continue
		}
		if int64(len(v)) < fixed+tableCountSize {
			return n, 0, base.Corrupt(offset, "size of a table's entry", len(v), fmt.Sprintf("at least %d", fixed+tableCountSize))
		}
		if *c.count = binary.LittleEndian.Uint64(v[fixed:]); *c.count == 0 {
			return n, 0, base.Corrupt(offset+fixed, c.what, 0, "more, or left out")
		}
		fixed += tableCountSize
	}
	return n, fixed, nil
}

// decodeParts returns two numbers of an encoded table that a bit announces, and the size of the
// part before what follows. fixed is the size of the part before the numbers.
func decodeParts(v []byte, offset, fixed int64, bit byte, what string) (tenth, half uint64, next int64, err error) {
	if v[1]&bit == 0 {
		return 0, 0, fixed, nil
	}
	if next = fixed + 2*tableCountSize; int64(len(v)) < next {
		return 0, 0, 0, base.Corrupt(offset, "size of a table's entry", len(v), fmt.Sprintf("at least %d", next))
	}
	tenth, half = binary.LittleEndian.Uint64(v[fixed:]), binary.LittleEndian.Uint64(v[fixed+tableCountSize:])
	if tenth == 0 || half != 0 && half < tenth {
		return 0, 0, 0, base.Corrupt(offset+fixed, what, fmt.Sprintf("%d and %d", tenth, half),
			"the first above 0, the second 0 or not below it")
	}
	return tenth, half, next, nil
}

// decodeLongRefs decodes the references of older databases. Each has the number of a value
// file (8) and the bytes (8). Jumps (8) follow if there are any.
func (n *counts) decodeLongRefs(v []byte, offset int64) (ValueRefs, error) {
	if n.jumps > 0 && len(v) > 0 {
		return ValueRefs{}, base.Corrupt(offset, "size of references without their bit, but with that of jumps", len(v), 0)
	}
	refs := make([]ValueRef, len(v)/longRefSize)
	for i := range refs {
		refs[i] = ValueRef{base.FileNum(binary.LittleEndian.Uint64(v)), binary.LittleEndian.Uint64(v[8:])}
		v, offset = v[longRefSize:], offset+longRefSize
	}
	if len(v) > 0 {
		if len(v) != tableCountSize {
			return ValueRefs{}, base.Corrupt(offset, "size of the last reference of a table", len(v), longRefSize)
		}
		if n.jumps = binary.LittleEndian.Uint64(v); n.jumps == 0 {
			return ValueRefs{}, base.Corrupt(offset, "jumps of a table", 0, "more, or left out")
		}
	}
	return ValueRefsOf(refs...), nil
}
