package table

// Advise starts to read the blocks from lo, inclusive, to hi, exclusive, unless they were
// read before. nil is no bound. A scan in steps would wait for each step.
func (r *Reader) Advise(lo, hi []byte) {
	from, to, err := r.places(lo, hi)
	if err != nil || r.crowded() {
		return // a scan reports the error
	}
	first, last := from.block, min(to.block, int(r.blocks)-1)
	if first > last || r.keysOK.has(first) && r.keysOK.has(last) {
		return
	}
	a, b := r.entryOf(first), r.entryOf(last)
	start, end := a.keyOff, b.keyOff+int64(b.keyLen)
	if a.valLen > 0 {
		start = min(start, a.valOff)
	}
	if b.valLen > 0 {
		end = max(end, b.valOff+int64(b.valLen))
	}
	if start = max(start, 0); start < end && end <= r.dataEnd {
		_ = r.m.WillNeed(start, end-start) // only a hint
	}
}
