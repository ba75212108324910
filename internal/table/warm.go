package table

// Warm brings the slots that a search for a hash usually reads into the processor's
// cache, if they are in memory. A reader of several tables warms all of them first,
// so that their cache misses overlap. The result has no meaning.
func (r *Reader) Warm(hash uint64) uint64 {
	x := &r.shape
	slot, _ := x.home(hash)
	if !r.pagesOK.has(int(slot >> x.pageShift())) {
		return 0
	}
	// A search for an absent key reads eight slots on average. About half of
	// the searches reach into the next cache line.
	at := slot * uint64(x.slotBytes)
	next := min(at+warmBytes, at|(pageSize-1), uint64(len(r.index)-1)) // stay within the verified page
	return uint64(r.index[at]) + uint64(r.index[next])
}

// warmBytes is the number of bytes within which a search mostly ends.
const warmBytes = 44
