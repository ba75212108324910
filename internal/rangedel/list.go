package rangedel

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"sort"

	"github.com/stoatdb/stoat/internal/base"
)

// A Deletion hides all versions below Seq of the keys from Lo, inclusive, to
// Hi, exclusive; base.EndOfKeys is the Hi of one without an end. Like every key,
// Lo is not empty.
type Deletion struct {
	Lo, Hi []byte
	Seq    base.SeqNum
}

// A Fragment is a range and the sequence numbers of all deletions that cover
// it, newest first.
type Fragment struct {
	Lo, Hi []byte
	Seqs   []base.SeqNum
}

// A List is range deletions as fragments: ascending, not overlapping, each
// with at least one sequence number. Fragments that touch have different
// numbers, so that there is one list for what is deleted, however it was put
// together. A List is immutable, a nil one is empty, and any number of
// goroutines may use it. The bounds are borrowed from whoever gave them.
type List struct {
	// One element for each fragment.
	los, his [][]byte
	ends     []int // of its numbers in seqs
	// fences are the first 8 bytes of los after the shared ones, as numbers
	// that order like them.
	fences []uint64

	seqs []base.SeqNum
	// shared is how many bytes all los have in common.
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

// Numbers returns how many sequence numbers all fragments have together.
func (l *List) Numbers() int {
	if l == nil {
		return 0
	}
	return len(l.seqs)
}

// At returns fragment i. It is not to be changed.
func (l *List) At(i int) Fragment {
	return Fragment{Lo: l.los[i], Hi: l.his[i], Seqs: l.numbers(i)}
}

// Seqs returns the newest and the oldest sequence number, or 0 and 0 if the
// list is empty.
func (l *List) Seqs() (newest, oldest base.SeqNum) {
	if l == nil {
		return 0, 0
	}
	return l.newest, l.oldest
}

// Bounds returns where the first fragment begins, inclusive, and where the
// last one ends, exclusive; nil and nil if the list is empty.
func (l *List) Bounds() (lo, hi []byte) {
	if l.Len() == 0 {
		return nil, nil
	}
	return l.los[0], l.his[len(l.his)-1]
}

// Bytes returns about how much memory the list takes beside the keys.
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
// covers key; 0 if there is none.
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
	fence := fenceOf(rest)
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

// Newer calls visit for the ranges, ascending, that have a deletion newer
// than than, until visit returns false.
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

// fenceOf returns the first 8 bytes of b as a number that orders like them.
func fenceOf(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var padded [8]byte
	copy(padded[:], b)
	return binary.BigEndian.Uint64(padded[:])
}

// commonLen returns how many bytes a and b share at the front.
func commonLen(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
