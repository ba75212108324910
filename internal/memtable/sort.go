package memtable

import (
	"bytes"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// A sorter brings items into the order of a run. It finds the prefix that all
// keys share and caches the bytes after it in the items. A radix sort orders the
// items by the first 8 of these bytes. Groups of items that these bytes do not
// tell apart are sorted again in the same way. So the sorter touches each key
// about once per 8 bytes that matter, and not once per comparison.
//
// All steps are stable: items that come newest first stay so within a key.
type sorter struct {
	arena *arena
}

const (
	// insertionMax is the size of the largest group that is sorted by insertion.
	insertionMax = 24
	// regroupMax is the depth of nested groups from which the sorter uses plain
	// comparisons. Only keys with long common parts at many depths get there.
	regroupMax = 16
)

// sort sorts items by their keys from depth on. All keys share the bytes before
// depth. It returns how many bytes they share, and leaves the bytes after those
// cached in the items. tmp is as long as items.
func (s sorter) sort(items, tmp []item, depth, level int) int {
	shared, equal := s.cache(items, depth)
	if equal {
		return shared
	}
	if len(items) <= insertionMax {
		s.insert(items, shared)
		return shared
	}
	if !presorted(items) {
		s.sortCached(items, tmp, shared, level)
	}
	return shared
}

// presorted brings items into order whose cached bytes all ascend, or all descend, and
// reports whether it did. They descend when a caller has written sorted keys, since the
// newest item comes first.
func presorted(items []item) bool {
	if items[0].before(items[1]) {
		for i := 2; i < len(items); i++ {
			if !items[i-1].before(items[i]) {
				return false
			}
		}
		return true
	}
	for i := 1; i < len(items); i++ {
		if !items[i].before(items[i-1]) {
			return false
		}
	}
	slices.Reverse(items)
	return true
}

// sortCached sorts items whose bytes after shared are cached. The radix sort
// uses as many of the differing bits as leave small groups.
func (s sorter) sortCached(items, tmp []item, shared, level int) {
	if len(items) <= insertionMax {
		s.insert(items, shared)
		return
	}
	varying := varyingBits(items)
	if varying == 0 {
		s.sortGroup(items, tmp, shared, level)
		return
	}
	looked := radix(items, tmp, varying)
	for from := 0; from < len(items); {
		end := from + 1
		for end < len(items) && (items[end].hi^items[from].hi)&looked == 0 {
			end++
		}
		if end-from > 1 {
			s.sortCached(items[from:end], tmp[from:end], shared, level)
		}
		from = end
	}
}

// sortGroup sorts items with equal hi. hi holds the 8 bytes after shared.
func (s sorter) sortGroup(items, tmp []item, shared, level int) {
	depth := shared + 8
	if level >= regroupMax || slices.ContainsFunc(items, func(it item) bool { return len(s.key(it.ref)) < depth }) {
		// The zeros that pad a short key look like zeros in a longer one, so
		// only a comparison tells them apart. Usually all keys are equal.
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

// cache finds how many bytes all keys share, given that they share depth bytes.
// It caches the bytes that follow in the items. It reports whether all keys are
// equal.
func (s sorter) cache(items []item, depth int) (shared int, equal bool) {
	first := s.key(items[0].ref)
	shared = s.guessShared(items, depth)
	for {
		equal = shared == len(first)
		lower := shared
		for i := range items {
			k := s.key(items[i].ref)
			equal = equal && len(k) == len(first)
			if len(k) < lower || string(k[depth:lower]) != string(first[depth:lower]) {
				lower = depth + base.CommonLen(k[depth:], first[depth:lower])
			}
			items[i].setPrefix(k[lower:])
		}
		if lower == shared {
			return shared, equal
		}
		shared = lower
	}
}

// guessShared returns how many bytes a sample of the keys shares. All keys
// seldom share fewer.
func (s sorter) guessShared(items []item, depth int) int {
	first := s.key(items[0].ref)
	n := len(first)
	for i := len(items) - 1; i > 0; i -= (len(items) + 15) / 16 {
		n = depth + base.CommonLen(first[depth:n], s.key(items[i].ref)[depth:])
	}
	return n
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
