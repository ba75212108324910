package table

// Warm brings the place in the hash index where the search for a hash begins,
// and what it mostly reads after that, into the cache, if it is in memory. A
// reader of several tables asks all of them first, so that it waits for their
// cache misses together. It returns a number of no meaning.
func (r *Reader) Warm(hash uint64) uint64 {
	x := &r.shape
	slot, _ := x.home(hash)
	if !r.pagesOK.has(int(slot >> x.pageShift())) {
		return 0
	}
	// A search for an absent key reads eight slots on average, which reach
	// into the next cache line as often as not.
	at := slot * uint64(x.slotBytes)
	next := min(at+warmBytes, at|(pageSize-1), uint64(len(r.index)-1)) // what was verified
	return uint64(r.index[at]) + uint64(r.index[next])
}

// warmBytes is how far behind its beginning a search mostly ends.
const warmBytes = 44
