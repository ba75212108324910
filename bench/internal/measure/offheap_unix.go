//go:build unix

package measure

import "golang.org/x/sys/unix"

// OffHeap returns size bytes outside the Go heap for the harness's buffers. On
// the heap they would raise the garbage collector's goal, and with it the memory
// of the store under test. They are never freed, because a process runs one
// workload.
func OffHeap(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}
