//go:build linux || darwin || freebsd

package vfs

import (
	"errors"
	"io"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// A lock is a pair of advisory locks (flock), one on a file and one on its directory.
// Each belongs to an open file description that no other lock shares:
//
//   - The kernel releases the locks when the process ends, in whatever way. They are
//     never stale.
//   - Two locks exclude each other in one process as they do in two processes.
//
// The lock of the file works where directories cannot be locked. The lock of the
// directory remains after a user removed the file.
type lock struct {
	dir, file int // descriptors, or notLocked
	once      sync.Once
}

// notLocked is used in place of a descriptor if there is no lock.
const notLocked = -1

func (osFS) Lock(name string) (io.Closer, error) {
	return lockOpened(OpLock, name, openLockFile, unix.LOCK_EX)
}

func (osFS) LockShared(name string) (io.Closer, error) {
	return lockOpened(OpLockShared, name, func(name string) (int, error) {
		return open(name, unix.O_RDONLY|openFlags, 0)
	}, unix.LOCK_SH)
}

func (osFS) LockDir(dir string) (io.Closer, error) {
	for {
		fd, err := lockDir(dir, unix.LOCK_EX)
		if err != nil {
			return nil, WrapError(OpLockDir, dir, err)
		}
		var named unix.Stat_t
		err = retryEINTR(func() error { return unix.Stat(dir, &named) })
		if err == nil && !isDir(&named) {
			err = errNotDir
		}
		current := fd == notLocked
		if err == nil && !current {
			current, err = isOf(fd, &named)
		}
		if err == nil && current {
			return &lock{dir: fd, file: notLocked}, nil
		}
		_ = unlock(fd) // the locked directory was renamed or removed meanwhile
		if err != nil {
			return nil, WrapError(OpLockDir, dir, err)
		}
	}
}

// isOf reports whether fd is open on the file or directory that named describes.
func isOf(fd int, named *unix.Stat_t) (bool, error) {
	var open unix.Stat_t
	err := retryEINTR(func() error { return unix.Fstat(fd, &open) })
	return open.Dev == named.Dev && open.Ino == named.Ino, err
}

// lockOpened opens a file and its directory and locks both. It locks the directory
// first: of two concurrent callers, one then gets both locks.
func lockOpened(op OpKind, name string, opened func(string) (int, error), how int) (io.Closer, error) {
	dir, err := lockDir(filepath.Dir(name), how)
	if err != nil {
		return nil, WrapError(op, name, err)
	}
	file, err := lockFile(name, opened, how)
	if err != nil {
		_ = unlock(dir) // the caller learns of the first error
		return nil, WrapError(op, name, err)
	}
	return &lock{dir: dir, file: file}, nil
}

// lockDir opens a directory and locks it. It returns notLocked without an error if the
// directory cannot be locked, unless another caller holds the lock.
func lockDir(dir string, how int) (int, error) {
	fd, err := open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.EMFILE || err == unix.ENFILE {
		return notLocked, err
	}
	if err != nil {
		return notLocked, nil // a missing directory fails the open of the file
	}
	if err = flock(fd, how); err != nil {
		_ = unix.Close(fd) // nothing was written through it
		if err != ErrLocked {
			err = nil
		}
		return notLocked, err
	}
	return fd, nil
}

// lockFile opens a file and locks it.
func lockFile(name string, opened func(string) (int, error), how int) (int, error) {
	for {
		fd, err := opened(name)
		if err != nil {
			return notLocked, err
		}
		current := false
		if err = flock(fd, how); err == nil {
			current, err = isCurrent(fd, name)
		}
		if err == nil && current {
			return fd, nil
		}
		_ = unix.Close(fd) // nothing was written through it
		if err != nil {
			return notLocked, err
		}
		// The file was removed or replaced between the open and the lock. Other
		// callers would open another file than the locked one.
	}
}

// flock takes the lock of fd. It returns ErrLocked if another caller holds it.
func flock(fd, how int) error {
	err := retryEINTR(func() error { return unix.Flock(fd, how|unix.LOCK_NB) })
	if err == unix.EWOULDBLOCK {
		err = ErrLocked
	}
	return err
}

// openLockFile opens a file, and creates it if it is missing.
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
	var named unix.Stat_t
	err := retryEINTR(func() error { return unix.Lstat(name, &named) })
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	current, err := isOf(fd, &named)
	if err == nil && current {
		err = requireRegular(&named)
	}
	return current, err
}

// Close releases the lock.
func (l *lock) Close() error {
	err := ErrClosed
	l.once.Do(func() { err = errors.Join(unlock(l.file), unlock(l.dir)) })
	return err
}

// unlock releases the lock of fd and closes it. Closing alone might not release the
// lock: a process that another goroutine forks shares the open file description until
// it executes its program.
func unlock(fd int) error {
	if fd == notLocked {
		return nil
	}
	err := retryEINTR(func() error { return unix.Flock(fd, unix.LOCK_UN) })
	return errors.Join(err, unix.Close(fd))
}
