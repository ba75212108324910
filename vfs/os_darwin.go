package vfs

import "golang.org/x/sys/unix"

// On macOS fsync hands the data to the drive and leaves it in the drive's
// cache. Only F_FULLFSYNC asks the drive to empty it.
func fullSync(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	if err == unix.ENOTSUP || err == unix.ENOTTY || err == unix.EINVAL {
		// Some file systems, mostly of networks, have only fsync.
		return unix.Fsync(fd)
	}
	return err
}

func dataSync(fd int) error { return fullSync(fd) }

// syncRange does nothing: there is no call that only starts writing.
func syncRange(int, int64, int64) error { return nil }

// waitRange does nothing, since nothing was started.
func waitRange(int, int64, int64) error { return nil }

// preallocate reserves what lies beyond the end of the file. That is all of it
// if the file is no longer than off; of what lies before its end nobody knows.
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
	// Any other error is a file system that cannot reserve.
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
