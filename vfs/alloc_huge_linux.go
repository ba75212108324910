//go:build !race

package vfs

import "golang.org/x/sys/unix"

// hugePageMin is the size in bytes from which an allocation requests huge pages.
const hugePageMin = 2 << 20

// adviseHugePages requests huge pages, which avoid TLB misses on random access. A
// kernel without huge pages returns an error, which does not matter.
func adviseHugePages(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

// sparseFlags are the further flags of a sparse mapping: it reserves no swap space.
const sparseFlags = unix.MAP_NORESERVE

// adviseSmallPages forbids huge pages, which would take memory around each byte that is
// touched. A kernel without huge pages returns an error, which does not matter.
func adviseSmallPages(b []byte) { _ = unix.Madvise(b, unix.MADV_NOHUGEPAGE) }
