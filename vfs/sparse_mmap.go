//go:build (linux || darwin || freebsd) && !race

package vfs

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePageSize is the usual size of a huge page in bytes.
const hugePageSize = 2 << 20

// allocSparse aligns large memory to huge pages.
func allocSparse(n int) ([]byte, error) {
	size := uintptr(n)
	if n >= hugePageSize {
		size += hugePageSize
	}
	p, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|sparseFlags)
	if err != nil {
		return nil, fmt.Errorf("vfs: reserve %d bytes: %w", n, err)
	}
	if n >= hugePageSize {
		// A part that cannot be returned is only lost address space.
		skip := -uintptr(p) & (hugePageSize - 1)
		if skip > 0 {
			_ = unix.MunmapPtr(p, skip)
		}
		p = unsafe.Add(p, skip)
		end := (uintptr(n) + uintptr(pageSize) - 1) &^ (uintptr(pageSize) - 1)
		if rest := size - skip - end; rest > 0 && rest < size {
			_ = unix.MunmapPtr(unsafe.Add(p, end), rest)
		}
	}
	b := unsafe.Slice((*byte)(p), n)
	adviseSmallPages(b)
	return b, nil
}

func freeSparse(b []byte) error {
	if err := unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(cap(b))); err != nil {
		return fmt.Errorf("vfs: free %d bytes: %w", cap(b), err)
	}
	return nil
}

// adviseWhole asks for huge pages in the part of b that begins and ends at a multiple of
// their size.
func adviseWhole(b []byte) {
	if len(b) == 0 {
		return
	}
	skip := int(-addressOf(b) & (hugePageSize - 1))
	if n := (len(b) - skip) &^ (hugePageSize - 1); n > 0 {
		adviseHugePages(b[skip : skip+n])
	}
}
