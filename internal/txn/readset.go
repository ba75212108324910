package txn

import (
	"bytes"
	"slices"
	"sort"
)

// A ReadSet is what a transaction has read: keys, as hashes, and ranges. At
// commit every write that others committed since the snapshot is looked up in
// it; one hit is a conflict.
//
// Keys are kept as 64-bit hashes, found by their high 32 bits, because that
// is what a memtable's list of recent writes has at hand. Two keys with the
// same 64-bit hash, of which 0 counts as 1, conflict for each other: a false
// abort, once in 2^64 pairs, never a missed one. The keys themselves are kept for
// range deletions, which have no hash.
type ReadSet struct {
	points []uint64 // open addressing by the high bits; 0 is empty
	count  int
	shift  uint // 64 - log2(len(points))
	read   keyLog
	ranges []Range
	sorted bool
	keys   []byte // backs the bounds of ranges
	// joinAt is how many ranges there are when those that touch are joined
	// before more are noted.
	joinAt int
}

// A Range is the keys from Lo, inclusive, to Hi, exclusive; a nil Hi has no
// end.
type Range struct {
	Lo, Hi []byte
}

const (
	pointsMin = 64
	joinMin   = 1 << 10
)

// Reset empties the set and keeps small memory for the next transaction.
func (r *ReadSet) Reset() {
	if len(r.points) > 1<<14 || cap(r.keys) > 1<<16 || cap(r.ranges) > 1<<12 {
		*r = ReadSet{}
		return
	}
	if r.count > 0 {
		clear(r.points)
		r.count = 0
	}
	r.read.reset()
	clear(r.ranges)
	r.ranges, r.keys, r.sorted, r.joinAt = r.ranges[:0], r.keys[:0], false, 0
}

// Empty reports whether nothing has been read.
func (r *ReadSet) Empty() bool { return r.count == 0 && len(r.ranges) == 0 }

// HasRanges reports whether a range has been read.
func (r *ReadSet) HasRanges() bool { return len(r.ranges) > 0 }

// AddKey notes that a key, which has the given hash, was read, there or not.
func (r *ReadSet) AddKey(key []byte, hash uint64) {
	if 4*(r.count+1) > 3*len(r.points) {
		r.growPoints()
	}
	if r.insert(pointOf(hash)) {
		r.count++
		r.read.add(key)
	}
}

// pointOf keeps 0 free to mean "empty".
func pointOf(hash uint64) uint64 {
	if hash == 0 {
		return 1
	}
	return hash
}

func (r *ReadSet) insert(point uint64) bool {
	mask := len(r.points) - 1
	for i := int(point >> r.shift); ; i = (i + 1) & mask {
		switch r.points[i] {
		case 0:
			r.points[i] = point
			return true
		case point:
			return false
		}
	}
}

func (r *ReadSet) growPoints() {
	old := r.points
	n := max(pointsMin, 2*len(old))
	r.points = make([]uint64, n)
	r.shift = 64
	for m := n; m > 1; m >>= 1 {
		r.shift--
	}
	for _, p := range old {
		if p != 0 {
			r.insert(p)
		}
	}
}

// MayHavePoint reports whether a key was read whose hash has the given high
// 32 bits.
func (r *ReadSet) MayHavePoint(high uint32) bool {
	if r.count == 0 {
		return false
	}
	mask := len(r.points) - 1
	for i := int(uint64(high) << 32 >> r.shift); ; i = (i + 1) & mask {
		p := r.points[i]
		if p == 0 {
			return false
		}
		if uint32(p>>32) == high {
			return true
		}
	}
}

// HasPoint reports whether the key with this hash was read.
func (r *ReadSet) HasPoint(hash uint64) bool {
	if r.count == 0 {
		return false
	}
	point, mask := pointOf(hash), len(r.points)-1
	for i := int(point >> r.shift); ; i = (i + 1) & mask {
		switch r.points[i] {
		case 0:
			return false
		case point:
			return true
		}
	}
}

// AddRange notes that the keys of [lo, hi) were read; a nil hi has no end.
// The bounds are copied.
func (r *ReadSet) AddRange(lo, hi []byte) {
	g := Range{Lo: r.keep(lo, false)}
	if hi != nil {
		g.Hi = r.keep(hi, false)
	}
	r.addRange(g)
}

// AddRangeThrough notes that the keys of [lo, last] were read.
func (r *ReadSet) AddRangeThrough(lo, last []byte) {
	r.addRange(Range{Lo: r.keep(lo, false), Hi: r.keep(last, true)})
}

func (r *ReadSet) addRange(g Range) {
	if g.Hi != nil && bytes.Compare(g.Lo, g.Hi) >= 0 {
		return // no key lies in it
	}
	if len(r.ranges) >= max(r.joinAt, joinMin) {
		r.join()
	}
	r.ranges = append(r.ranges, g)
	r.sorted = len(r.ranges) == 1
}

// join makes the set as small as what it says, so that who looks at the same
// keys for ever does not fill the memory. It is done again when there are twice
// as many ranges.
func (r *ReadSet) join() {
	r.mergeRanges()
	clear(r.ranges[len(r.ranges):cap(r.ranges)]) // they hold on to bounds
	r.keys = nil
	for i, g := range r.ranges {
		r.ranges[i].Lo = r.keep(g.Lo, false)
		if g.Hi != nil {
			r.ranges[i].Hi = r.keep(g.Hi, false)
		}
	}
	r.joinAt = 2 * len(r.ranges)
}

// keep copies key; with after, it returns the first key after it instead.
func (r *ReadSet) keep(key []byte, after bool) []byte {
	n := len(key) + 1
	if cap(r.keys)-len(r.keys) < n {
		// Bounds that were kept before stay in the old array.
		r.keys = make([]byte, 0, max(n, min(2*cap(r.keys), 1<<16), 512))
	}
	start := len(r.keys)
	r.keys = append(r.keys, key...)
	if after {
		r.keys = append(r.keys, 0)
	}
	return r.keys[start:len(r.keys):len(r.keys)]
}

// Covers reports whether key lies in a range that was read.
func (r *ReadSet) Covers(key []byte) bool {
	if !r.sorted {
		r.mergeRanges()
	}
	// The last range that starts at or before key is the only candidate.
	i, found := slices.BinarySearchFunc(r.ranges, key, func(g Range, key []byte) int {
		return bytes.Compare(g.Lo, key)
	})
	if !found {
		i--
	}
	return i >= 0 && (r.ranges[i].Hi == nil || bytes.Compare(key, r.ranges[i].Hi) < 0)
}

// Intersects reports whether a key of [lo, hi) was read, by itself or in a
// range; a nil hi has no end.
func (r *ReadSet) Intersects(lo, hi []byte) bool {
	return r.rangesIntersect(lo, hi) || r.read.has(lo, hi)
}

// rangesIntersect reports whether a range that was read and [lo, hi) have a
// key in common.
func (r *ReadSet) rangesIntersect(lo, hi []byte) bool {
	if !r.sorted {
		r.mergeRanges()
	}
	// The first range that does not end before lo is the only candidate.
	i := sort.Search(len(r.ranges), func(i int) bool {
		return r.ranges[i].Hi == nil || bytes.Compare(r.ranges[i].Hi, lo) > 0
	})
	return i < len(r.ranges) && (hi == nil || bytes.Compare(r.ranges[i].Lo, hi) < 0 && bytes.Compare(lo, hi) < 0)
}

// mergeRanges sorts the ranges and joins those that touch, so that their ends
// ascend too.
func (r *ReadSet) mergeRanges() {
	slices.SortFunc(r.ranges, func(a, b Range) int { return bytes.Compare(a.Lo, b.Lo) })
	out := r.ranges[:0]
	for _, g := range r.ranges {
		if n := len(out); n > 0 && (out[n-1].Hi == nil || bytes.Compare(g.Lo, out[n-1].Hi) <= 0) {
			last := &out[n-1]
			if last.Hi != nil && (g.Hi == nil || bytes.Compare(g.Hi, last.Hi) > 0) {
				last.Hi = g.Hi
			}
			continue
		}
		out = append(out, g)
	}
	r.ranges, r.sorted = out, true
}
