package table

// Warm brings the place in the hash index where the search for a hash begins
// into the cache, if it is in memory. A reader of several tables asks all of
// them first, so that it waits for their cache misses together. It returns
// a number of no meaning.
func (r *Reader) Warm(hash uint64) uint64 {
	x := &r.shape
	if x.slots == 0 {
		return 0 // range deletions alone
	}
	slot, _ := x.home(hash)
	if !r.pagesOK.has(int(slot >> x.pageShift())) {
		return 0
	}
	return x.load(r.index, slot)
}
