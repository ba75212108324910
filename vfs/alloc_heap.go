//go:build race || !(linux || darwin || freebsd)

package vfs

import (
	"unsafe"

	"github.com/stoatdb/stoat/internal/invariant"
)

// allocMemory takes whole words, so that atomic access to them is aligned.
func allocMemory(n int) ([]byte, error) {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)[:n:n], nil
}

// freeMemory spoils the bytes, so that a reader that kept them sees garbage,
// or the race detector the reader.
func freeMemory(b []byte) error {
	invariant.Mangle(b)
	return nil
}
