package readset

import "bytes"

// RangeOf returns a range of the set that has key, if there is one. It is borrowed until
// the set changes.
func (r *Set) RangeOf(key []byte) (Range, bool) {
	if g, ok := r.rangeOf(key); ok {
		return g, true
	}
	for i := range r.moments {
		if m := &r.moments[i]; m.includes(key) {
			if g, ok := m.reads.rangeOf(key); ok {
				return g, true
			}
		}
	}
	return Range{}, false
}

// Extent returns the least range that has all keys and ranges of the set, which is not
// empty. It is borrowed until the set changes.
func (r *Set) Extent() Range {
	var all Range
	empty := true
	add := func(g Range) {
		if empty || bytes.Compare(g.Lo, all.Lo) < 0 {
			all.Lo = g.Lo
		}
		if empty || all.Hi != nil && (g.Hi == nil || bytes.Compare(g.Hi, all.Hi) > 0) {
			all.Hi = g.Hi
		}
		empty = false
	}
	for _, g := range r.ranges {
		add(g)
	}
	for i := range r.moments {
		for _, g := range r.moments[i].reads.ranges {
			add(g)
		}
	}
	r.read.each(func(key []byte) bool {
		if empty || bytes.Compare(key, all.Lo) < 0 || all.Hi != nil && bytes.Compare(key, all.Hi) >= 0 {
			add(Range{key, append(bytes.Clone(key), 0)})
		}
		return true
	})
	return all
}
