package readset

import (
	"bytes"
	"math/bits"
	"slices"
	"sort"
)

// A Set records what a transaction has read: keys, as hashes, and ranges.
// Commit looks up every write that other transactions committed since the
// snapshot; one hit is a conflict.
//
// Keys are stored as 64-bit hashes. A lookup may use only their high 32 bits,
// because the memtable's list of recent writes has only these. Two keys with the
// same 64-bit hash conflict with each other; hash 0 counts as 1. This is a false
// conflict, once in 2^64 pairs. The set also keeps the keys themselves, because
// range deletions have no hash, and because a key tells which table may have it.
// Of two keys with the same hash it keeps only the first. A range deletion of the
// other one, or its new version in a table, may be missed.
type Set struct {
	points []uint64 // open addressing by the high bits; 0 is empty
	count  int
	shift  uint // 64 - log2(len(points))
	read   keyLog
	ranges []Range
	sorted bool
	keys   []byte // memory of the bounds of ranges
	kept   int64  // bytes of the bounds of ranges
	// joinAt is the number of ranges from which addRange first joins those that
	// touch.
	joinAt int
	// moments has the ranges of which only versions up to a timestamp were read.
	moments []moment
}

// A Range is the keys from Lo, inclusive, to Hi, exclusive. A nil Hi means no
// end.
type Range struct {
	Lo, Hi []byte
}

const (
	pointsMin = 64
	joinMin   = 1 << 10
)

// Reset empties the set. It keeps a small amount of memory for the next
// transaction.
func (r *Set) Reset() {
	if len(r.points) > 1<<14 || cap(r.keys) > 1<<16 || cap(r.ranges) > 1<<12 {
		*r = Set{}
		return
	}
	if r.count > 0 {
		clear(r.points)
		r.count = 0
	}
	r.read.reset()
	clear(r.ranges)
	r.ranges, r.keys, r.kept, r.sorted, r.joinAt = r.ranges[:0], r.keys[:0], 0, false, 0
	r.moments = nil
}

// Empty reports whether the transaction has read nothing.
func (r *Set) Empty() bool { return r.count == 0 && !r.HasRanges() }

// Bytes returns about how much memory the set takes.
func (r *Set) Bytes() int64 {
	const rangeSize = 48 // in bytes, without the bounds
	bytes := int64(8*cap(r.points)+rangeSize*cap(r.ranges)) + r.kept + r.read.bytes()
	for i := range r.moments {
		bytes += r.moments[i].reads.Bytes()
	}
	return bytes
}

// HasRanges reports whether the transaction has read a range.
func (r *Set) HasRanges() bool { return len(r.ranges) > 0 || len(r.moments) > 0 }

// AddKey records a read of a key with the given hash, whether the key exists or
// not.
func (r *Set) AddKey(key []byte, hash uint64) {
	if 4*(r.count+1) > 3*len(r.points) {
		r.growPoints()
	}
	if r.insert(pointOf(hash)) {
		r.count++
		r.read.add(key)
	}
}

// pointOf maps a hash to a nonzero point, because 0 means "empty".
func pointOf(hash uint64) uint64 { return max(hash, 1) }

func (r *Set) insert(point uint64) bool {
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

func (r *Set) growPoints() {
	old := r.points
	n := max(pointsMin, 2*len(old))
	r.points = make([]uint64, n)
	r.shift = uint(64 - bits.TrailingZeros(uint(n))) // n is a power of two
	for _, p := range old {
		if p != 0 {
			r.insert(p)
		}
	}
}

// MayHavePoint reports whether the set has a key whose hash has the given high
// 32 bits.
func (r *Set) MayHavePoint(high uint32) bool {
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

// HasPoint reports whether the set has a key with this hash.
func (r *Set) HasPoint(hash uint64) bool {
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

// AddRange records a read of the keys of [lo, hi). A nil hi means no end.
// AddRange copies the bounds.
func (r *Set) AddRange(lo, hi []byte) {
	g := Range{Lo: r.keep(lo, false)}
	if hi != nil {
		g.Hi = r.keep(hi, false)
	}
	r.addRange(g)
}

// AddRangeThrough records a read of the keys of [lo, last].
func (r *Set) AddRangeThrough(lo, last []byte) {
	r.addRange(Range{Lo: r.keep(lo, false), Hi: r.keep(last, true)})
}

func (r *Set) addRange(g Range) {
	if g.Hi != nil && bytes.Compare(g.Lo, g.Hi) >= 0 {
		return // the range is empty
	}
	if len(r.ranges) >= max(r.joinAt, joinMin) {
		r.join()
	}
	r.ranges = append(r.ranges, g)
	r.sorted = len(r.ranges) == 1
}

// join shrinks the set to the ranges that it covers. Without it, a transaction
// that reads the same keys again and again would fill the memory. join runs
// again when the number of ranges has doubled.
func (r *Set) join() {
	r.mergeRanges()
	clear(r.ranges[len(r.ranges):cap(r.ranges)]) // drop their references to bounds
	r.keys, r.kept = nil, 0
	for i, g := range r.ranges {
		r.ranges[i].Lo = r.keep(g.Lo, false)
		if g.Hi != nil {
			r.ranges[i].Hi = r.keep(g.Hi, false)
		}
	}
	r.joinAt = 2 * len(r.ranges)
}

// keep copies key. With after, it returns the first key after key instead.
func (r *Set) keep(key []byte, after bool) []byte {
	n := len(key) + 1
	r.kept += int64(n)
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
func (r *Set) Covers(key []byte) bool { return r.covers(key) || r.momentCovers(key) }

func (r *Set) covers(key []byte) bool {
	_, ok := r.rangeOf(key)
	return ok
}

// rangeOf returns the range that has key, if there is one.
func (r *Set) rangeOf(key []byte) (Range, bool) {
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
	if i >= 0 && (r.ranges[i].Hi == nil || bytes.Compare(key, r.ranges[i].Hi) < 0) {
		return r.ranges[i], true
	}
	return Range{}, false
}

// Intersects reports whether the set has a key or a range that lies in or
// overlaps [lo, hi). A nil hi means no end.
func (r *Set) Intersects(lo, hi []byte) bool {
	return r.rangesIntersect(lo, hi) || r.momentsIntersect(lo, hi) || r.read.has(lo, hi)
}

// rangesIntersect reports whether a range of the set and [lo, hi) have a key in
// common.
func (r *Set) rangesIntersect(lo, hi []byte) bool {
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
func (r *Set) mergeRanges() {
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

// Points calls yield for the hash of every key that was read individually, until
// it returns false. The set does not distinguish the hashes 0 and 1, so it
// yields both or neither.
func (r *Set) Points(yield func(hash uint64) bool) {
	for _, p := range r.points {
		if p == pointOf(0) && !yield(0) {
			return
		}
		if p != 0 && !yield(p) {
			return
		}
	}
}

// Keys calls yield for every key that was read individually, until it returns false. Of
// keys with the same hash it yields only the first. A key is borrowed until the set changes.
func (r *Set) Keys(yield func(key []byte) bool) { r.read.each(yield) }

// Ranges returns the ranges that were read, ascending, with gaps between them.
// They are borrowed until the set changes.
func (r *Set) Ranges() []Range {
	if !r.sorted {
		r.mergeRanges()
	}
	return r.ranges
}
