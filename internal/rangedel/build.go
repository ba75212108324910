package rangedel

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// Build returns a list of the fragments of deletions, which may come in any
// order. It ignores empty ranges.
func Build(deletions []Deletion) *List {
	in := make([]Deletion, 0, len(deletions))
	for _, d := range deletions {
		invariant.Check(len(d.Lo) > 0, "a range deletion begins at the empty key")
		if bytes.Compare(d.Lo, d.Hi) < 0 {
			in = append(in, d)
		}
	}
	byLo, byHi := in, slices.Clone(in)
	slices.SortFunc(byLo, func(a, b Deletion) int { return bytes.Compare(a.Lo, b.Lo) })
	slices.SortFunc(byHi, func(a, b Deletion) int { return bytes.Compare(a.Hi, b.Hi) })
	var out builder
	var open []base.SeqNum // numbers of the deletions that cover the keys from at on, descending
	var at []byte
	for len(byHi) > 0 {
		next, begins := byHi[0].Hi, false
		// Ends are exclusive, so ends at a key come before beginnings there.
		if len(byLo) > 0 && bytes.Compare(byLo[0].Lo, next) < 0 {
			next, begins = byLo[0].Lo, true
		}
		out.add(at, next, open)
		at = next
		if begins {
			open = insert(open, byLo[0].Seq)
			byLo = byLo[1:]
		} else {
			open = remove(open, byHi[0].Seq)
			byHi = byHi[1:]
		}
	}
	return out.list()
}

func descending(a, b base.SeqNum) int { return cmp.Compare(b, a) }

func insert(seqs []base.SeqNum, s base.SeqNum) []base.SeqNum {
	i, _ := slices.BinarySearchFunc(seqs, s, descending)
	return slices.Insert(seqs, i, s)
}

func remove(seqs []base.SeqNum, s base.SeqNum) []base.SeqNum {
	i, found := slices.BinarySearchFunc(seqs, s, descending)
	invariant.Check(found, "the deletion %d ends before it begins", s)
	return slices.Delete(seqs, i, i+1)
}

// A builder makes a list of fragments that arrive in order.
type builder struct {
	l List
}

// grow makes room for n more fragments of one number each.
func (b *builder) grow(n int) {
	b.l.los, b.l.his = slices.Grow(b.l.los, n), slices.Grow(b.l.his, n)
	b.l.ends, b.l.seqs = slices.Grow(b.l.ends, n), slices.Grow(b.l.seqs, n)
}

// add appends [lo, hi), covered by deletions with the numbers seqs. These
// descend, may repeat, and may be none. add joins fragments that touch and have
// the same numbers.
func (b *builder) add(lo, hi []byte, seqs []base.SeqNum) {
	if len(seqs) == 0 || bytes.Compare(lo, hi) >= 0 {
		return
	}
	l := &b.l
	start := len(l.seqs)
	for _, s := range seqs {
		if n := len(l.seqs); n == start || l.seqs[n-1] != s {
			l.seqs = append(l.seqs, s)
		}
	}
	if last := len(l.los) - 1; last >= 0 {
		invariant.Check(bytes.Compare(l.his[last], lo) <= 0, "fragment at %q after one up to %q", lo, l.his[last])
		if bytes.Equal(l.his[last], lo) && slices.Equal(l.numbers(last), l.seqs[start:]) {
			l.his[last], l.seqs = hi, l.seqs[:start]
			return
		}
	}
	l.los, l.his, l.ends = append(l.los, lo), append(l.his, hi), append(l.ends, len(l.seqs))
}

// list returns the finished list, nil if it has no fragments.
func (b *builder) list() *List {
	l := &b.l
	if len(l.los) == 0 {
		return nil
	}
	l.shared = base.CommonLen(l.los[0], l.los[len(l.los)-1])
	l.fences = make([]uint64, len(l.los))
	for i, lo := range l.los {
		l.fences[i] = base.Head(lo[l.shared:])
	}
	l.newest, l.oldest = slices.Max(l.seqs), slices.Min(l.seqs)
	return l
}
