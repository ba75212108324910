//go:build !race

package vfs

import "golang.org/x/sys/unix"

// hugePageMin is the smallest allocation for which huge pages are asked.
const hugePageMin = 2 << 20

// adviseHugePages asks for huge pages, which save TLB misses on random
// access. A kernel without them refuses, and nothing is lost.
func adviseHugePages(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
