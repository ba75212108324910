package vfs

// AllocSparse returns n zeroed bytes that take memory only where the caller touches
// them, in small pages. They lie outside the Go heap, except on systems without
// anonymous mappings and under the race detector. The caller must return them with
// FreeSparse. AllocatedBytes does not count them.
func AllocSparse(n int) ([]byte, error) {
	if n < 0 {
		return nil, errInvalid
	}
	if n == 0 {
		return nil, nil
	}
	return allocSparse(n)
}

// FillSparse announces that the caller will touch all of b, a part of memory from
// AllocSparse. The system may then take huge pages for it, where b has whole ones.
func FillSparse(b []byte) { adviseWhole(b) }

// FreeSparse frees memory that AllocSparse returned. No goroutine may access the memory
// afterwards.
func FreeSparse(b []byte) error {
	if cap(b) == 0 {
		return nil
	}
	return freeSparse(b[:cap(b)])
}
