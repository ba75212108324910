package memtable

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// A sorter brings items into the order of a run. It knows the keys by 12
// bytes at a time: it finds the prefix that all keys share, caches the bytes
// after it in the items, sorts by the first 8 of them with a radix sort, and
// does the same again for each group that they do not tell apart. So each key
// is touched about as often as it has 8-byte pieces that matter, and not once
// per comparison.
//
// All steps are stable: items that come newest first stay so within a key.
type sorter struct {
	arena *arena
}

const (
	// insertionMax is the largest group that is sorted by insertion.
	insertionMax = 24
	// regroupMax is how often groups of groups are cached anew before plain
	// comparisons take over. Only keys with long zero-free common parts at
	// many depths get there.
	regroupMax = 16
)

// sort sorts items by the keys from depth on, which all share the bytes
// before it, and returns how many bytes they all share. It leaves the cached
// bytes after those in the items. tmp is as long as items.
func (s sorter) sort(items, tmp []item, depth, level int) int {
	shared, equal := s.shared(items, depth)
	for i := range items {
		items[i].setPrefix(s.key(items[i].ref)[shared:])
	}
	if equal {
		return shared
	}
	if len(items) <= insertionMax {
		s.insert(items, shared)
		return shared
	}
	radix(items, tmp)
	for from := 0; from < len(items); {
		end := from + 1
		for end < len(items) && items[end].hi == items[from].hi {
			end++
		}
		if end-from > 1 {
			s.sortGroup(items[from:end], tmp[from:end], shared, level)
		}
		from = end
	}
	return shared
}

// sortGroup sorts items with equal hi, which follows shared bytes.
func (s sorter) sortGroup(items, tmp []item, shared, level int) {
	depth := shared + 8
	if len(items) <= insertionMax {
		s.insert(items, shared)
		return
	}
	if level >= regroupMax || slices.ContainsFunc(items, func(it item) bool { return len(s.key(it.ref)) < depth }) {
		// Zeros that pad a short key look like zeros in a longer one; a
		// comparison tells them apart. Most often there is nothing to tell.
		if !s.equal(items) {
			slices.SortStableFunc(items, func(a, b item) int { return s.compare(a, b, shared) })
		}
		return
	}
	hi, lo := items[0].hi, items[0].lo
	deeper := s.sort(items, tmp, depth, level+1)
	for i := range items {
		if deeper >= shared+cachedLen {
			items[i].hi, items[i].lo = hi, lo
		} else {
			items[i].setPrefix(s.key(items[i].ref)[shared:])
		}
	}
}

func (s sorter) key(r Ref) []byte {
	e := s.arena.at(r)
	return e.key(e.word())
}

// shared returns how many bytes all keys share, given that they share depth,
// and whether the keys are equal.
func (s sorter) shared(items []item, depth int) (n int, equal bool) {
	first := s.key(items[0].ref)
	n, equal = len(first), true
	for i := 1; i < len(items); i++ {
		k := s.key(items[i].ref)
		equal = equal && len(k) == len(first)
		if len(k) < n || string(k[depth:n]) != string(first[depth:n]) {
			n = depth + commonLen(k[depth:min(n, len(k))], first[depth:])
			equal = false
		}
	}
	return n, equal
}

// equal reports whether all keys are the same.
func (s sorter) equal(items []item) bool {
	first := s.key(items[0].ref)
	for i := 1; i < len(items); i++ {
		if !bytes.Equal(s.key(items[i].ref), first) {
			return false
		}
	}
	return true
}

// compare compares two keys whose bytes after shared are cached.
func (s sorter) compare(a, b item, shared int) int {
	switch {
	case a.hi < b.hi:
		return -1
	case a.hi > b.hi:
		return 1
	case a.lo < b.lo:
		return -1
	case a.lo > b.lo:
		return 1
	}
	return bytes.Compare(s.key(a.ref)[shared:], s.key(b.ref)[shared:])
}

// insert is an insertion sort.
func (s sorter) insert(items []item, shared int) {
	for i := 1; i < len(items); i++ {
		it := items[i]
		j := i
		for ; j > 0 && s.compare(it, items[j-1], shared) < 0; j-- {
			items[j] = items[j-1]
		}
		items[j] = it
	}
}

// radix sorts items by hi, stably, from its lowest byte to its highest. Bytes
// that are the same in all items cost nothing but their count.
func radix(items, tmp []item) {
	var counts [8][256]uint32
	for i := range items {
		hi := items[i].hi
		counts[0][byte(hi)]++
		counts[1][byte(hi>>8)]++
		counts[2][byte(hi>>16)]++
		counts[3][byte(hi>>24)]++
		counts[4][byte(hi>>32)]++
		counts[5][byte(hi>>40)]++
		counts[6][byte(hi>>48)]++
		counts[7][byte(hi>>56)]++
	}
	from, to := items, tmp
	for d := range counts {
		c, shift := &counts[d], uint(8*d)
		if c[byte(items[0].hi>>shift)] == uint32(len(items)) {
			continue
		}
		sum := uint32(0)
		for b := range c {
			sum, c[b] = sum+c[b], sum
		}
		for i := range from {
			b := byte(from[i].hi >> shift)
			to[c[b]] = from[i]
			c[b]++
		}
		from, to = to, from
	}
	if &from[0] != &items[0] {
		copy(items, from)
	}
}

// commonLen returns the length of the common prefix of a and b.
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
