package rangedel

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
)

// Merge returns one list with the deletions of all lists.
func Merge(lists ...*List) *List { return merge(lists, union) }

// newestOf returns one list in which each fragment has only its newest number of
// all lists.
func newestOf(lists ...*List) *List {
	if len(lists) == 1 {
		return merge2(lists[0], nil, newer)
	}
	return merge(lists, newer)
}

// A combination appends to dst the numbers of a fragment that has the numbers a
// in one list and b in another. Either may be empty.
type combination func(dst, a, b []base.SeqNum) []base.SeqNum

// union appends the numbers of both. The result descends and may repeat numbers.
func union(dst, a, b []base.SeqNum) []base.SeqNum {
	for len(a) > 0 && len(b) > 0 {
		if a[0] >= b[0] {
			dst, a = append(dst, a[0]), a[1:]
		} else {
			dst, b = append(dst, b[0]), b[1:]
		}
	}
	return append(append(dst, a...), b...)
}

func newer(dst, a, b []base.SeqNum) []base.SeqNum {
	if len(b) == 0 || len(a) > 0 && a[0] >= b[0] {
		return append(dst, a[:min(1, len(a))]...)
	}
	return append(dst, b[0])
}

// merge merges by halves, so that each fragment is merged a logarithmic number
// of times.
func merge(lists []*List, combine combination) *List {
	switch len(lists) {
	case 0:
		return nil
	case 1:
		return lists[0]
	case 2:
		return merge2(lists[0], lists[1], combine)
	}
	half := len(lists) / 2
	return merge2(merge(lists[:half], combine), merge(lists[half:], combine), combine)
}

// merge2 sweeps over the bounds of both lists.
func merge2(a, b *List, combine combination) *List {
	var out builder
	out.grow(a.Len() + b.Len())
	var buf []base.SeqNum
	x, y := sweep{l: a}, sweep{l: b}
	for {
		at, ok := earlier(x.bound(), y.bound())
		if !ok {
			return out.list()
		}
		x.pass(at)
		y.pass(at)
		// No deletion begins or ends between at and the next bound.
		if next, ok := earlier(x.bound(), y.bound()); ok {
			buf = combine(buf[:0], x.covering(), y.covering())
			out.add(at, next, buf)
		}
	}
}

// A sweep is a position among the bounds of a list. It is before fragment i, or
// within it if inside is set.
type sweep struct {
	l      *List
	i      int
	inside bool
}

// bound returns the next bound, nil at the end.
func (s *sweep) bound() []byte {
	switch {
	case s.i >= s.l.Len():
		return nil
	case s.inside:
		return s.l.his[s.i]
	}
	return s.l.los[s.i]
}

// pass moves past all bounds equal to key. A fragment may end there and the next
// one begin.
func (s *sweep) pass(key []byte) {
	for b := s.bound(); b != nil && bytes.Equal(b, key); b = s.bound() {
		if s.inside {
			s.i++
		}
		s.inside = !s.inside
	}
}

func (s *sweep) covering() []base.SeqNum {
	if !s.inside {
		return nil
	}
	return s.l.numbers(s.i)
}

// earlier returns the lesser of two bounds, either of which may be nil. It
// reports false if both are.
func earlier(a, b []byte) ([]byte, bool) {
	switch {
	case a == nil:
		return b, b != nil
	case b == nil || bytes.Compare(a, b) < 0:
		return a, true
	}
	return b, true
}

// Clip returns the part of the list in [lo, hi), where nil is no bound.
func (l *List) Clip(lo, hi []byte) *List {
	var out builder
	for i := l.from(lo); i < l.Len(); i++ {
		f := l.At(i)
		if hi != nil && bytes.Compare(f.Lo, hi) >= 0 {
			break
		}
		if lo != nil && bytes.Compare(f.Lo, lo) < 0 {
			f.Lo = lo
		}
		if hi != nil && bytes.Compare(f.Hi, hi) > 0 {
			f.Hi = hi
		}
		out.add(f.Lo, f.Hi, f.Seqs)
	}
	return out.list()
}

// from returns the first fragment that may contain a key >= lo.
func (l *List) from(lo []byte) int {
	if lo == nil || l == nil {
		return 0
	}
	return max(l.search(lo), 0)
}
