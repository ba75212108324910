package vfs

import "golang.org/x/sys/unix"

func fullSync(fd int) error { return unix.Fsync(fd) }
func dataSync(fd int) error { return unix.Fsync(fd) }

// isDamage reports whether the file system has found a file or itself damaged.
func isDamage(errno unix.Errno) bool { return errno == unix.EINTEGRITY }

// syncRange does nothing: FreeBSD has no call that starts writes without waiting.
func syncRange(int, int64, int64) error { return nil }

// waitRange does nothing because syncRange starts nothing.
func waitRange(int, int64, int64) error { return nil }

// preallocate only grows the file: package unix has no call to reserve space.
func preallocate(fd int, off, n int64) (reserved bool, err error) { return false, grow(fd, off+n) }

func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	err := retryEINTR(func() error { return unix.Statfs(dir, &st) })
	return uint64(max(0, st.Bavail)) * st.Bsize, err
}

func canPopulate() bool { return false }

func populate([]byte) error { return unix.ENOSYS }

func cached([]byte) bool { return false }

func cachedFile(string, int64, int64) bool { return false }
