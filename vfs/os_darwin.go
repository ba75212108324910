package vfs

import "golang.org/x/sys/unix"

// fullSync uses F_FULLFSYNC, which flushes the cache of the drive. On macOS, fsync
// leaves the data in that cache.
func fullSync(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	if err == unix.ENOTSUP || err == unix.ENOTTY || err == unix.EINVAL {
		// Some file systems, mostly network file systems, only support fsync.
		return unix.Fsync(fd)
	}
	return err
}

func dataSync(fd int) error { return fullSync(fd) }

// isDamage does nothing: macOS reports damage as EIO.
func isDamage(unix.Errno) bool { return false }

// syncRange does nothing: macOS has no call that starts writes without waiting.
func syncRange(int, int64, int64) error { return nil }

// waitRange does nothing because syncRange starts nothing.
func waitRange(int, int64, int64) error { return nil }

// preallocate reserves the space beyond the end of the file. It reports success only
// if the whole range lies there: the range before the end may contain holes.
func preallocate(fd int, off, n int64) (reserved bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	end := off + n
	if end <= st.Size {
		return false, nil
	}
	store := unix.Fstore_t{
		Flags:   unix.F_ALLOCATEALL,
		Posmode: unix.F_PEOFPOSMODE,
		Length:  end - st.Size,
	}
	err = unix.FcntlFstore(uintptr(fd), unix.F_PREALLOCATE, &store)
	if err == unix.ENOSPC || err == unix.EINTR {
		return false, err
	}
	// Any other error means that the file system cannot reserve space.
	return err == nil && st.Size <= off, grow(fd, end)
}

func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	err := retryEINTR(func() error { return unix.Statfs(dir, &st) })
	return st.Bavail * uint64(st.Bsize), err
}

func canPopulate() bool { return false }

func populate([]byte) error { return unix.ENOSYS }

func cached([]byte) bool { return false }

func cachedFile(string, int64, int64) bool { return false }
