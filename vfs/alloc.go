package vfs

import "sync/atomic"

// allocated is the bytes that Alloc gave out and Free did not take back.
var allocated atomic.Int64

// AllocatedBytes returns how many bytes of Alloc are in use in this process.
func AllocatedBytes() int64 { return allocated.Load() }

// Alloc returns n zeroed bytes outside the Go heap, aligned to 8 bytes at
// least. The garbage collector neither scans nor frees them: they must hold
// no Go pointers and go back by Free.
//
// Where the system has no anonymous mappings, and under the race detector,
// which only sees the Go heap, they come from the heap.
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

// Free gives memory back that Alloc returned. b must start where the slice of
// Alloc started and have its capacity; its length does not matter. Nothing
// may touch the memory afterwards.
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
