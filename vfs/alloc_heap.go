//go:build race || !(linux || darwin || freebsd)

package vfs

import (
	"unsafe"

	"github.com/stoatdb/stoat/internal/invariant"
)

// allocMemory allocates whole words, which aligns them for atomic access.
func allocMemory(n int) ([]byte, error) {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)[:n:n], nil
}

// freeMemory overwrites the bytes. A reader that still uses them then reads garbage
// or is reported by the race detector.
func freeMemory(b []byte) error {
	invariant.Mangle(b)
	return nil
}
