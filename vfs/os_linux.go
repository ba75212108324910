package vfs

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

func dataSync(fd int) error { return unix.Fdatasync(fd) }
func fullSync(fd int) error { return unix.Fsync(fd) }

// isDamage reports whether the file system has found a file or itself damaged, or passes on
// why a device failed, as XFS does after a failed write: a medium that cannot be written, a
// target or a path that is lost, or a timeout.
func isDamage(errno unix.Errno) bool {
	switch errno {
	case unix.EUCLEAN, unix.EBADMSG,
		unix.ENODATA, unix.EREMOTEIO, unix.ENOLINK, unix.ETIMEDOUT, unix.EBADE:
		return true
	}
	return false
}

// syncRange starts writes without waiting. The flags that wait also consume the error
// of a failed write, which no sync on this handle would report afterwards.
func syncRange(fd int, off, n int64) error {
	return fileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
}

// waitRange waits for writes, and returns and consumes the error of a failed one.
func waitRange(fd int, off, n int64) error {
	return fileRange(fd, off, n, unix.SYNC_FILE_RANGE_WAIT_BEFORE)
}

func fileRange(fd int, off, n int64, flags int) error {
	err := unix.SyncFileRange(fd, off, n, flags)
	if err == unix.ENOSYS || err == unix.ESPIPE {
		return nil
	}
	return err
}

func preallocate(fd int, off, n int64) (reserved bool, err error) {
	if n == 0 {
		return true, grow(fd, off)
	}
	err = unix.Fallocate(fd, 0, off, n)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return false, grow(fd, off+n)
	}
	return err == nil, err
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
var canPopulate = sync.OnceValue(func() bool { return takesAdvice(unix.MADV_POPULATE_READ) })

// takesAdvice reports whether the kernel knows an advice for pages.
func takesAdvice(advice int) bool {
	page, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return false
	}
	err = unix.Madvise(page, advice)
	_ = unix.Munmap(page) // the page that was mapped above
	return err == nil
}

// populate reads the pages b of a mapping into memory and maps them.
func populate(b []byte) error {
	return retryEINTR(func() error { return unix.Madvise(b, unix.MADV_POPULATE_READ) })
}

// cached reports whether the page cache holds all of b, a window of a mapping.
func cached(b []byte) bool {
	var in [mapWindowSize / 4096]byte // every system has pages of at least 4096 bytes
	pages := (len(b) + pageSize - 1) / pageSize
	_, _, errno := unix.Syscall(unix.SYS_MINCORE,
		uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&in[0])))
	if errno != 0 {
		return false
	}
	for _, p := range in[:pages] {
		if p&1 == 0 {
			return false
		}
	}
	return true
}

// lacksCachestat is true once the kernel has answered that it has no cachestat (6.5).
var lacksCachestat atomic.Bool

// cachedFile reports whether the page cache holds all of [off, off+n) of the file called
// name. It is faster than cached, and opens the file for it. It reports false if it
// cannot know, for example because the file was deleted.
func cachedFile(name string, off, n int64) bool {
	if lacksCachestat.Load() {
		return false
	}
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	var found unix.Cachestat_t
	err = unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(off), Len: uint64(n)}, &found, 0)
	if err == unix.ENOSYS {
		lacksCachestat.Store(true)
	}
	page := int64(pageSize)
	return err == nil && int64(found.Cache) >= (n+page-1)/page
}
