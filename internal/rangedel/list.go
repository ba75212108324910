package rangedel

import (
	"bytes"
	"sort"

	"github.com/stoatdb/stoat/internal/base"
)

// A Deletion hides all versions below Seq of the keys from Lo, inclusive, to Hi,
// exclusive. Hi is base.EndOfKeys if the range has no end. Like every key, Lo is
// not empty.
type Deletion struct {
	Lo, Hi []byte
	Seq    base.SeqNum
}

// A Fragment is a range and the sequence numbers of all deletions that cover it,
// newest first.
type Fragment struct {
	Lo, Hi []byte
	Seqs   []base.SeqNum
}

// A List is a set of range deletions as fragments: ascending, not overlapping,
// each with at least one sequence number. Fragments that touch have different
// numbers, so equal sets of deletions have equal lists. A List is immutable, and
// a nil one is empty. Any number of goroutines may use it. The bounds are
// borrowed from the caller that provided them.
type List struct {
	// One element for each fragment.
	los, his [][]byte
	ends     []int // of the fragment's numbers in seqs
	// fences are the first 8 bytes of los after the shared prefix, as numbers of
	// the same order.
	fences []uint64

	seqs []base.SeqNum
	// shared is the length of the common prefix of all los.
	shared int
	// newest and oldest bound seqs.
	newest, oldest base.SeqNum
}

// Len returns the number of fragments.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.los)
}

// Numbers returns the total count of sequence numbers of all fragments.
func (l *List) Numbers() int {
	if l == nil {
		return 0
	}
	return len(l.seqs)
}

// At returns fragment i. The caller must not change it.
func (l *List) At(i int) Fragment {
	return Fragment{Lo: l.los[i], Hi: l.his[i], Seqs: l.numbers(i)}
}

// Seqs returns the newest and the oldest sequence number, or zeros if the list
// is empty.
func (l *List) Seqs() (newest, oldest base.SeqNum) {
	if l == nil {
		return 0, 0
	}
	return l.newest, l.oldest
}

// Bounds returns the inclusive beginning of the first fragment and the exclusive
// end of the last one. Both are nil if the list is empty.
func (l *List) Bounds() (lo, hi []byte) {
	if l.Len() == 0 {
		return nil, nil
	}
	return l.los[0], l.his[len(l.his)-1]
}

// Bytes returns roughly how much memory the list takes, without the keys.
func (l *List) Bytes() int64 {
	const perFragment = 24 + 24 + 8 + 8
	if l == nil {
		return 0
	}
	return int64(cap(l.los))*perFragment + int64(cap(l.seqs))*8
}

// numbers returns the sequence numbers of fragment i.
func (l *List) numbers(i int) []base.SeqNum {
	from := 0
	if i > 0 {
		from = l.ends[i-1]
	}
	return l.seqs[from:l.ends[i]:l.ends[i]]
}

// newestAt returns the newest number of fragment i that is at most at, or 0.
func (l *List) newestAt(i int, at base.SeqNum) base.SeqNum {
	seqs := l.numbers(i)
	if seqs[0] <= at {
		return seqs[0]
	}
	if n := sort.Search(len(seqs), func(j int) bool { return seqs[j] <= at }); n < len(seqs) {
		return seqs[n]
	}
	return 0
}

// Cover returns the newest sequence number, at most at, of a deletion that
// covers key, or 0 if there is none.
func (l *List) Cover(key []byte, at base.SeqNum) base.SeqNum {
	if l == nil {
		return 0
	}
	i := l.search(key)
	if i < 0 || bytes.Compare(key, l.his[i]) >= 0 {
		return 0
	}
	return l.newestAt(i, at)
}

// search returns the last fragment that does not begin after key, or -1.
func (l *List) search(key []byte) int {
	if len(l.los) == 0 {
		return -1
	}
	n := min(l.shared, len(key))
	if c := bytes.Compare(key[:n], l.los[0][:n]); c < 0 || c == 0 && n < l.shared {
		return -1
	} else if c > 0 {
		return len(l.los) - 1
	}
	rest := key[l.shared:]
	fence := base.Head(rest)
	from, to := 0, len(l.fences)
	for from < to {
		mid := int(uint(from+to) / 2)
		f := l.fences[mid]
		if f < fence || f == fence && bytes.Compare(l.los[mid][l.shared:], rest) <= 0 {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from - 1
}

// Newer calls visit for the ranges that have a deletion newer than than, in
// ascending order, until visit returns false.
func (l *List) Newer(than base.SeqNum, visit func(lo, hi []byte) bool) {
	if l == nil || l.newest <= than {
		return
	}
	for i := range l.los {
		if l.numbers(i)[0] > than && !visit(l.los[i], l.his[i]) {
			return
		}
	}
}
