package txn

// Points calls yield for the hash of every key that was read by itself, until
// it returns false. Since the set does not tell hashes 0 and 1 apart, it has both or
// neither.
func (r *ReadSet) Points(yield func(hash uint64) bool) {
	for _, p := range r.points {
		if p == pointOf(0) && !yield(0) {
			return
		}
		if p != 0 && !yield(p) {
			return
		}
	}
}

// Ranges returns the ranges that were read, ascending, none touching another.
// They are borrowed until the set changes.
func (r *ReadSet) Ranges() []Range {
	if !r.sorted {
		r.mergeRanges()
	}
	return r.ranges
}
