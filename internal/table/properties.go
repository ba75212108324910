package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// Properties describe the contents of a table.
type Properties struct {
	// Size is the size of the file, DataSize that of its blocks, in bytes.
	Size, DataSize int64
	// Salt identifies this table among all tables ever written. It detects a
	// file that was replaced by another.
	Salt uint64

	// Smallest and Largest bound the keys of entries and range tombstones. Both
	// bounds are inclusive, unless LargestExclusive is set. Largest is then the
	// end of a range tombstone, base.EndOfKeys if it has no end.
	Smallest, Largest       []byte
	LargestExclusive        bool
	SmallestSeq, LargestSeq base.SeqNum

	// Entries counts all versions, Keys the distinct keys.
	Entries, Keys uint64
	// RangeDeletions counts the sequence numbers of the fragments of range
	// tombstones.
	RangeDeletions uint64
	// Deletions, Expiring, Pointers and Partials count the entries of these kinds.
	Deletions, Expiring, Pointers, Partials uint64
	// OldestExpiry and NewestExpiry bound the expiry times in Unix milliseconds.
	// They are 0 if nothing expires.
	OldestExpiry, NewestExpiry uint64

	Blocks uint64
	// KeyBytes and ValueBytes are the total lengths of the added keys and values.
	// KeyPartBytes and ValuePartBytes are the stored sizes of the block parts.
	KeyBytes, ValueBytes         uint64
	KeyPartBytes, ValuePartBytes uint64

	// ValueFiles says how many bytes of which value files the table's pointers
	// refer to, ascending by file.
	ValueFiles []ValueFileRef
}

// A ValueFileRef is the part of a value file that a table keeps alive.
type ValueFileRef struct {
	File, Bytes uint64
}

// numbers lists the fixed part of the properties in the order of the format.
func (p *Properties) numbers() []*uint64 {
	return []*uint64{(*uint64)(&p.SmallestSeq), (*uint64)(&p.LargestSeq), &p.Entries, &p.Keys,
		&p.Deletions, &p.Expiring, &p.Pointers, &p.OldestExpiry, &p.NewestExpiry, &p.Blocks,
		&p.KeyBytes, &p.ValueBytes, &p.KeyPartBytes, &p.ValuePartBytes}
}

// include extends p, which covers the entries, by the range tombstones of the
// table. The stored properties do not include them.
func (p *Properties) include(l *rangedel.List) {
	if l.Len() == 0 {
		return
	}
	lo, hi := l.Bounds()
	if p.Entries == 0 || bytes.Compare(lo, p.Smallest) < 0 {
		p.Smallest = lo
	}
	if p.Entries == 0 || bytes.Compare(hi, p.Largest) > 0 {
		p.Largest, p.LargestExclusive = hi, true
	}
	newest, oldest := l.Seqs()
	p.SmallestSeq, p.LargestSeq = min(p.SmallestSeq, oldest), max(p.LargestSeq, newest)
	p.RangeDeletions = uint64(l.Numbers())
}

// short returns p for error messages, with shortened bounds.
func (p Properties) short() Properties {
	const most = 80
	p.Smallest, p.Largest = p.Smallest[:min(most, len(p.Smallest))], p.Largest[:min(most, len(p.Largest))]
	return p
}

// append appends the encoding of p. First come the numbers, 8 bytes each. Then come the
// smallest and the largest key, each behind a length of 4 bytes. Then comes the count of
// value files in 4 bytes, and for each file its number and bytes, 8 each. Unless it is 0,
// the count of partial entries follows in 8 bytes.
func (p *Properties) append(dst []byte) []byte {
	le := binary.LittleEndian
	for _, n := range p.numbers() {
		dst = le.AppendUint64(dst, *n)
	}
	for _, key := range [][]byte{p.Smallest, p.Largest} {
		dst = append(le.AppendUint32(dst, uint32(len(key))), key...)
	}
	dst = le.AppendUint32(dst, uint32(len(p.ValueFiles)))
	for _, f := range p.ValueFiles {
		dst = le.AppendUint64(le.AppendUint64(dst, f.File), f.Bytes)
	}
	if p.Partials != 0 {
		dst = le.AppendUint64(dst, p.Partials)
	}
	return dst
}

// decodeProperties is the inverse of Properties.append. off is the file offset of
// src.
func decodeProperties(src []byte, off int64) (Properties, error) {
	var p Properties
	le := binary.LittleEndian
	short := func() (Properties, error) {
		return Properties{}, base.Corrupt(off, "length of the properties", len(src), "more")
	}
	rest := src
	for _, n := range p.numbers() {
		if len(rest) < 8 {
			return short()
		}
		*n, rest = le.Uint64(rest), rest[8:]
	}
	for _, key := range []*[]byte{&p.Smallest, &p.Largest} {
		if len(rest) < 4 {
			return short()
		}
		n := le.Uint32(rest)
		if rest = rest[4:]; uint64(n) > uint64(len(rest)) || n > base.MaxKeySize || (n == 0) != (p.Entries == 0) {
			return Properties{}, base.Corrupt(off, "length of a bound", n, fmt.Sprintf("1 to %d", min(len(rest), base.MaxKeySize)))
		}
		*key, rest = slices.Clone(rest[:n]), rest[n:]
	}
	if len(rest) < 4 {
		return short()
	}
	files := le.Uint32(rest)
	if rest = rest[4:]; len(rest)%16 == 8 {
		tail := rest[len(rest)-8:]
		if rest, p.Partials = rest[:len(rest)-8], le.Uint64(tail); p.Partials == 0 {
			return Properties{}, base.Corrupt(off+int64(len(src)-8), "count of partial entries", 0, "more, or left out")
		}
	}
	if uint64(len(rest)) != 16*uint64(files) {
		return Properties{}, base.Corrupt(off, "length of the value file list", len(rest), 16*uint64(files))
	}
	for ; len(rest) > 0; rest = rest[16:] {
		f := ValueFileRef{File: le.Uint64(rest), Bytes: le.Uint64(rest[8:])}
		if n := len(p.ValueFiles); n > 0 && p.ValueFiles[n-1].File >= f.File {
			return Properties{}, base.Corrupt(off, "value file list", f.File, "ascending numbers")
		}
		p.ValueFiles = append(p.ValueFiles, f)
	}
	return p, nil
}
