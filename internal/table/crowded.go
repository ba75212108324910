package table

// The plain pages of a sealed table are memory of the process, which the system cannot
// reclaim. When that memory has reached its limit, reads decrypt what is not there yet
// to the Go heap. The Go garbage collector takes it when no caller uses it. Pages of the
// hash index, and the keys that a lookup or a seek compares, still stay: they are few.

// crowded reports whether a read should keep nothing more.
func (r *Reader) crowded() bool { return r.sealed != nil && r.sealed.Crowded() }

// copied reads a part of a sealed table to the Go heap.
func (r *Reader) copied(off, n int64) ([]byte, error) {
	b := make([]byte, n)
	if _, err := r.sealed.ReadAt(b, off); err != nil {
		return nil, r.inFile(err)
	}
	return b, nil
}

// copiedKeys returns a view of a verified copy of the keys of block b.
func (r *Reader) copiedKeys(b int, e blockEntry) (view, error) {
	part, err := r.copied(e.keyOff, int64(e.keyLen))
	if err == nil {
		err = r.checkKeyPart(b, e, part)
	}
	if err != nil {
		return view{}, err
	}
	return makeView(e, part, r.opts.SeqShift), nil
}

// copiedValues returns a verified copy of the stored values of the block of v.
func (r *Reader) copiedValues(b int, v *view) ([]byte, error) {
	stored, err := r.copied(v.valOff, int64(v.valLen))
	if err == nil {
		err = r.checkValuePart(b, v, stored)
	}
	return stored, err
}
