package memtable

import (
	"bytes"
	"math/bits"
)

// search returns the index of the first item with a key >= key.
func (r *run) search(t *Table, key []byte) int {
	n := min(len(key), len(r.shared))
	switch c := bytes.Compare(key[:n], r.shared[:n]); {
	case c < 0 || c == 0 && len(key) < len(r.shared):
		return 0
	case c > 0:
		return len(r.items)
	}
	rest := key[len(r.shared):]
	var want item
	want.setPrefix(rest)
	from := r.searchHi(want.hi)
	if from == len(r.items) || r.items[from].hi != want.hi {
		return from
	}
	return r.searchEqual(t, from, want, rest)
}

// searchHi returns the index of the first item whose hi is at least hi.
func (r *run) searchHi(hi uint64) int {
	if len(r.fences) == 0 {
		from, n := 0, len(r.items)
		for n > 0 {
			half := (n + 1) / 2
			if r.items[from+half-1].hi < hi {
				from += half
			}
			n -= half
		}
		return from
	}
	from, n := 0, len(r.fences)
	for n > 0 {
		half := (n + 1) / 2
		if r.fences[from+half-1] < hi {
			from += half
		}
		n -= half
	}
	if from == 0 {
		return 0
	}
	// The items between two fences take a few cache lines. Counting the smaller
	// items, one of each line first, waits for all lines at once. Halving would
	// wait for one after the other.
	first := (from - 1) * fenceStride
	between := r.items[first:min(first+fenceStride, len(r.items))]
	lines := 0
	for i := 0; i < len(between); i += itemsPerLine {
		lines += below(between[i].hi, hi)
	}
	at := max(lines-1, 0) * itemsPerLine
	for _, it := range between[at:min(at+itemsPerLine, len(between))] {
		at += below(it.hi, hi)
	}
	return first + at
}

const itemsPerLine = 64 / itemSize

// below returns 1 if a < b, and 0 otherwise, without a branch.
func below(a, b uint64) int {
	_, borrow := bits.Sub64(a, b, 0)
	return int(borrow)
}

// searchEqual continues the search at from, the first item with the hi of want.
// rest is the searched key without the shared prefix.
func (r *run) searchEqual(t *Table, from int, want item, rest []byte) int {
	before := func(i int) bool {
		it := &r.items[i]
		switch {
		case it.hi != want.hi:
			return it.hi < want.hi
		case it.lo != want.lo:
			return it.lo < want.lo
		}
		return bytes.Compare(t.Key(it.ref)[len(r.shared):], rest) < 0
	}
	// Usually there are few: gallop.
	lo, step := from, 1
	for lo < len(r.items) && before(lo) {
		from = lo + 1
		lo += step
		step *= 2
	}
	for end := min(lo, len(r.items)); from < end; {
		mid := int(uint(from+end) >> 1)
		if before(mid) {
			from = mid + 1
		} else {
			end = mid
		}
	}
	return from
}
