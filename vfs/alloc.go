package vfs

import "sync/atomic"

// allocated is the number of bytes that Alloc returned and Free did not take back.
var allocated atomic.Int64

// AllocatedBytes returns how many bytes from Alloc this process uses.
func AllocatedBytes() int64 { return allocated.Load() }

// Alloc returns n zeroed bytes outside the Go heap, aligned to at least 8 bytes.
// The garbage collector neither scans nor frees them. The caller must not store Go
// pointers in them and must return them with Free.
//
// Alloc uses the Go heap on systems without anonymous mappings. It also does so
// under the race detector, which sees nothing else.
func Alloc(n int) ([]byte, error) {
	if n < 0 {
		return nil, errInvalid
	}
	if n == 0 {
		return nil, nil
	}
	b, err := allocMemory(n)
	if err != nil {
		return nil, err
	}
	allocated.Add(int64(n))
	return b, nil
}

// Free frees memory that Alloc returned. b must have the start and the capacity of
// the slice that Alloc returned. Its length is ignored. No goroutine may access the
// memory afterwards.
func Free(b []byte) error {
	if cap(b) == 0 {
		return nil
	}
	if err := freeMemory(b[:cap(b)]); err != nil {
		return err
	}
	allocated.Add(-int64(cap(b)))
	return nil
}
