package vfs

import "golang.org/x/sys/unix"

func fullSync(fd int) error { return unix.Fsync(fd) }
func dataSync(fd int) error { return unix.Fsync(fd) }

// syncRange does nothing: there is no call that only starts writing.
func syncRange(int, int64, int64) error { return nil }

// waitRange does nothing, since nothing was started.
func waitRange(int, int64, int64) error { return nil }

// preallocate reserves nothing: package unix has no function for it.
func preallocate(fd int, off, n int64) (reserved bool, err error) { return false, grow(fd, off+n) }

func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	err := retryEINTR(func() error { return unix.Statfs(dir, &st) })
	return uint64(max(0, st.Bavail)) * st.Bsize, err
}

func canPopulate() bool { return false }

func populate([]byte) error { return unix.ENOSYS }

func cached([]byte) bool { return false }
