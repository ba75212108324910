package vfs

import (
	"sync"

	"golang.org/x/sys/unix"
)

func dataSync(fd int) error { return unix.Fdatasync(fd) }
func fullSync(fd int) error { return unix.Fsync(fd) }

// syncRange only starts the writing. The flags that wait would also take
// note of a failed write, which then no sync on this handle would report.
func syncRange(fd int, off, n int64) error {
	err := unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	if err == unix.ENOSYS || err == unix.ESPIPE {
		return nil
	}
	return err
}

func preallocate(fd int, off, n int64) error {
	if n == 0 {
		return grow(fd, off)
	}
	err := unix.Fallocate(fd, 0, off, n)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return grow(fd, off+n)
	}
	return err
}

func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	err := retryEINTR(func() error { return unix.Statfs(dir, &st) })
	if err != nil {
		return 0, err
	}
	unit := uint64(st.Frsize)
	if unit == 0 {
		unit = uint64(st.Bsize)
	}
	return st.Bavail * unit, nil
}

// canPopulate reports whether the kernel has MADV_POPULATE_READ (5.14).
var canPopulate = sync.OnceValue(func() bool {
	page, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return false
	}
	err = unix.Madvise(page, unix.MADV_POPULATE_READ)
	_ = unix.Munmap(page) // our own page of a moment ago
	return err == nil
})

// populate reads b, whole pages of a mapping, into memory and maps them.
func populate(b []byte) error {
	return retryEINTR(func() error { return unix.Madvise(b, unix.MADV_POPULATE_READ) })
}
