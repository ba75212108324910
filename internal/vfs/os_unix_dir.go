//go:build linux || darwin || freebsd

package vfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// MkdirAll makes one level after the other and syncs each into its parent
// before the next. The parent of the deepest level that existed is synced as
// well: the process that made it may have died before it did so.
func (osFS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	missing, err := missingDirs(dir)
	if err != nil {
		return pathErr(OpMkdir, dir, err)
	}
	deepest := dir
	if len(missing) > 0 {
		deepest = filepath.Dir(missing[len(missing)-1])
	}
	if err := syncExistingParent(deepest); err != nil {
		return pathErr(OpMkdir, deepest, err)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := makeDir(missing[i]); err != nil {
			return pathErr(OpMkdir, missing[i], err)
		}
		if err := syncDir(filepath.Dir(missing[i])); err != nil {
			return pathErr(OpMkdir, missing[i], err)
		}
	}
	return nil
}

// missingDirs returns dir and those of its parents that do not exist, deepest
// first.
func missingDirs(dir string) ([]string, error) {
	var missing []string
	for {
		var st unix.Stat_t
		err := retryEINTR(func() error { return unix.Stat(dir, &st) })
		if err == nil {
			if uint32(st.Mode)&unix.S_IFMT != unix.S_IFDIR {
				return nil, errNotDir
			}
			return missing, nil
		}
		parent := filepath.Dir(dir)
		if err != unix.ENOENT || parent == dir {
			return nil, err
		}
		missing = append(missing, dir)
		dir = parent
	}
}

// syncExistingParent syncs the entry of a directory that was there before. A
// parent that this user may not read is passed over: then somebody else made
// the directory.
func syncExistingParent(dir string) error {
	err := syncDir(filepath.Dir(dir))
	if err == unix.EACCES || err == unix.EPERM {
		return nil
	}
	return err
}

// makeDir makes one directory with mode dirMode at any umask. That another
// process was faster is no error.
func makeDir(dir string) error {
	err := retryEINTR(func() error { return unix.Mkdir(dir, dirMode) })
	if err != nil && err != unix.EEXIST {
		return err
	}
	var st unix.Stat_t
	if err := retryEINTR(func() error { return unix.Lstat(dir, &st) }); err != nil {
		return err
	}
	if uint32(st.Mode)&unix.S_IFMT != unix.S_IFDIR {
		return errNotDir
	}
	if err == nil && uint32(st.Mode)&0o777 != dirMode {
		// By name, as a directory without permissions cannot be opened.
		return retryEINTR(func() error { return unix.Chmod(dir, dirMode) })
	}
	return nil
}

// A lock is an advisory lock on an open file description of its own. The
// kernel drops it when the description goes, however the process ends, so it
// is never stale; and as each Lock opens the file anew, a second one in the
// same process meets the first as a stranger would.
type lock struct {
	fd   int
	once sync.Once
}

func (osFS) Lock(name string) (io.Closer, error) {
	return lockOpened(OpLock, name, openLockFile, unix.LOCK_EX)
}

func (osFS) LockShared(name string) (io.Closer, error) {
	return lockOpened(OpLockShared, name, func(name string) (int, error) {
		return open(name, unix.O_RDONLY|openFlags, 0)
	}, unix.LOCK_SH)
}

// lockOpened opens a file and takes its lock.
func lockOpened(op OpKind, name string, opened func(string) (int, error), how int) (io.Closer, error) {
	for {
		fd, err := opened(name)
		if err != nil {
			return nil, pathErr(op, name, err)
		}
		err = retryEINTR(func() error { return unix.Flock(fd, how|unix.LOCK_NB) })
		if err == unix.EWOULDBLOCK {
			err = ErrLocked
		}
		current := false
		if err == nil {
			current, err = isCurrent(fd, name)
		}
		if err == nil && current {
			return &lock{fd: fd}, nil
		}
		_ = unix.Close(fd) // nothing was written through it
		if err != nil {
			return nil, pathErr(op, name, err)
		}
		// The file was removed or replaced between the open and the lock: what
		// is locked now is not what others will open.
	}
}

// openLockFile opens the file, or makes it.
func openLockFile(name string) (int, error) {
	for {
		fd, err := open(name, unix.O_RDWR|openFlags, 0)
		if err != unix.ENOENT {
			return fd, err
		}
		fd, err = createExclusive(name)
		if err != unix.EEXIST {
			return fd, err
		}
	}
}

// isCurrent reports whether name still leads to the open file fd.
func isCurrent(fd int, name string) (bool, error) {
	var open, named unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(fd, &open) }); err != nil {
		return false, err
	}
	if err := requireRegular(&open); err != nil {
		return false, err
	}
	err := retryEINTR(func() error { return unix.Lstat(name, &named) })
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return open.Dev == named.Dev && open.Ino == named.Ino, err
}

// Close ends the lock. It unlocks explicitly: a process that another
// goroutine is just forking shares the description until it executes.
func (l *lock) Close() error {
	err := ErrClosed
	l.once.Do(func() {
		err = retryEINTR(func() error { return unix.Flock(l.fd, unix.LOCK_UN) })
		err = errors.Join(err, unix.Close(l.fd))
	})
	return err
}
