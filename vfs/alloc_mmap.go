//go:build (linux || darwin || freebsd) && !race

package vfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

var errNotAllocated = errors.New("memory is not from Alloc")

func allocMemory(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("vfs: allocate %d bytes: %w", n, err)
	}
	if n >= hugePageMin {
		adviseHugePages(b)
	}
	return b, nil
}

func freeMemory(b []byte) error {
	if err := unix.Munmap(b); err != nil {
		// unix.Munmap refuses memory that unix.Mmap did not return.
		return fmt.Errorf("vfs: free %d bytes: %w: %w", len(b), errNotAllocated, err)
	}
	return nil
}
