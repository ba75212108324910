package rangedel

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
)

// A list is stored as the count of its fragments and the fragments. All numbers
// are unsigned varints in their shortest form:
//
//	count of fragments, at least 1
//	for each fragment:
//	  length of the first key, 0 if the fragment begins where the one before
//	  it ends; the key
//	  length of the key after the last one, 0 if the fragment ends with all
//	  keys; the key
//	  count of sequence numbers, at least 1
//	  the newest number
//	  for each older one, how much less it is than the one before it
//
// An empty list is stored as no bytes. Each list has exactly one encoding;
// Decode refuses everything else.

// fragmentMin is the least mean size of a fragment in bytes. An inner fragment
// has an empty length, a key of one byte, and one number. The last one may take
// a byte less, but the first one has an additional key.
const fragmentMin = 5

// AppendTo appends the encoding of l to dst.
func (l *List) AppendTo(dst []byte) []byte {
	if l.Len() == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(l.Len()))
	for i, lo := range l.los {
		if i > 0 && bytes.Equal(lo, l.his[i-1]) {
			dst = append(dst, 0)
		} else {
			dst = append(binary.AppendUvarint(dst, uint64(len(lo))), lo...)
		}
		hi := base.StoredBound(l.his[i])
		dst = append(binary.AppendUvarint(dst, uint64(len(hi))), hi...)
		seqs := l.numbers(i)
		dst = binary.AppendUvarint(dst, uint64(len(seqs)))
		for j, s := range seqs {
			if j > 0 {
				s = seqs[j-1] - s
			}
			dst = binary.AppendUvarint(dst, uint64(s))
		}
	}
	return dst
}

// Decode is the inverse of List.AppendTo. off is the offset of src in its file,
// for errors. The keys of the list are slices of src, or base.EndOfKeys.
func Decode(src []byte, off int64) (*List, error) {
	if len(src) == 0 {
		return nil, nil
	}
	d := decoder{src: src, off: off}
	count, err := d.number("count of range deletions", 1, uint64(len(src)/fragmentMin))
	if err != nil {
		return nil, err
	}
	d.out.grow(int(count))
	for i := range int(count) {
		if err := d.fragment(i); err != nil {
			return nil, err
		}
	}
	if d.at != len(src) {
		return nil, d.bad("bytes after the last range deletion", len(src)-d.at, 0)
	}
	return d.out.list(), nil
}

// A decoder reads src at index at.
type decoder struct {
	src  []byte
	at   int
	off  int64
	out  builder
	seqs []base.SeqNum
}

func (d *decoder) bad(what string, got, want any) error {
	return base.Corrupt(d.off+int64(d.at), what, got, want)
}

// fragment reads fragment i.
func (d *decoder) fragment(i int) error {
	var before []byte
	if i > 0 {
		before = d.out.l.his[i-1]
	}
	lo, err := d.key("first key of a range deletion")
	if err != nil {
		return err
	}
	switch {
	case len(lo) == 0 && i == 0:
		return d.bad("first key of a range deletion", "none", "a key")
	case len(lo) == 0:
		lo = before
	case bytes.Compare(lo, before) <= 0:
		return d.bad("order of range deletions", base.BoundString(lo), "more than "+base.BoundString(before))
	}
	hi, err := d.key("end of a range deletion")
	if err != nil {
		return err
	}
	// This also refuses a fragment after one that ends at the end of all keys.
	if hi = base.LoadedBound(hi); bytes.Compare(lo, hi) >= 0 {
		return d.bad("end of a range deletion", base.BoundString(hi), "more than "+base.BoundString(lo))
	}
	if err := d.numbers(); err != nil {
		return err
	}
	if d.out.add(lo, hi, d.seqs); len(d.out.l.los) != i+1 {
		return d.bad("range deletions that touch", "the same numbers", "different ones")
	}
	return nil
}

// numbers reads the sequence numbers of a fragment.
func (d *decoder) numbers() error {
	count, err := d.number("count of a range deletion's numbers", 1, uint64(len(d.src)-d.at))
	if err != nil {
		return err
	}
	d.seqs = d.seqs[:0]
	s, err := d.number("sequence number of a range deletion", 1, uint64(base.SeqNumMax))
	for ; err == nil; count-- {
		if d.seqs = append(d.seqs, base.SeqNum(s)); count == 1 {
			return nil
		}
		var less uint64
		less, err = d.number("sequence number of a range deletion", 1, s-1)
		s -= less
	}
	return err
}

func (d *decoder) key(what string) ([]byte, error) {
	n, err := d.number("length of the "+what, 0, uint64(min(base.MaxKeySize, len(d.src)-d.at)))
	if err != nil {
		return nil, err
	}
	if n > uint64(len(d.src)-d.at) {
		return nil, d.bad(what+" beyond the end", n, len(d.src)-d.at)
	}
	key := d.src[d.at : d.at+int(n) : d.at+int(n)]
	d.at += int(n)
	return key, nil
}

// number reads a varint in its shortest form, from least to most.
func (d *decoder) number(what string, least, most uint64) (uint64, error) {
	n, size := binary.Uvarint(d.src[d.at:])
	if size <= 0 || size > 1 && d.src[d.at+size-1] == 0 {
		return 0, d.bad(what, "a bad varint", "a varint")
	}
	if n < least || n > most {
		return 0, d.bad(what, n, fmt.Sprintf("%d to %d", least, most))
	}
	d.at += size
	return n, nil
}
