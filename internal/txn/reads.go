package txn

// Points calls yield for the hash of every key that was read individually, until
// it returns false. The set does not distinguish the hashes 0 and 1, so it
// yields both or neither.
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

// Ranges returns the ranges that were read, ascending, with gaps between them.
// They are borrowed until the set changes.
func (r *ReadSet) Ranges() []Range {
	if !r.sorted {
		r.mergeRanges()
	}
	return r.ranges
}
