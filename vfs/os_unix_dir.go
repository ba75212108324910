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

// MkdirAll creates one level at a time and syncs its parent before the next level. It
// also syncs the parent of the deepest level that existed: the process that created
// that level may have died before its own sync.
//
// After a failed sync, the next one may succeed without making the name durable. So
// MkdirAll removes the level whose sync fails, and the next MkdirAll enters it anew.
func (osFS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	missing, err := missingDirs(dir)
	if err != nil {
		return WrapError(OpMkdir, dir, err)
	}
	deepest := dir
	if len(missing) > 0 {
		deepest = filepath.Dir(missing[len(missing)-1])
	}
	if err := syncExistingParent(deepest); err != nil {
		return WrapError(OpMkdir, deepest, err)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		made, err := makeDir(missing[i])
		if err == nil {
			err = syncDir(filepath.Dir(missing[i]))
		}
		if err != nil {
			if made {
				_ = retryEINTR(func() error { return unix.Rmdir(missing[i]) }) // fails if another process uses it
			}
			return WrapError(OpMkdir, missing[i], err)
		}
	}
	return nil
}

// missingDirs returns those of dir and its parents that do not exist, deepest first.
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

// syncExistingParent syncs the parent of a directory that existed already. It ignores a
// parent that this user may not read: then another user created the directory.
func syncExistingParent(dir string) error {
	err := syncDir(filepath.Dir(dir))
	if err == unix.EACCES || err == unix.EPERM {
		return nil
	}
	return err
}

// makeDir creates one directory with mode dirMode, whatever the umask. It succeeds if
// another process created the directory first; then made is false.
func makeDir(dir string) (made bool, err error) {
	err = retryEINTR(func() error { return unix.Mkdir(dir, dirMode) })
	if err != nil && err != unix.EEXIST {
		return false, err
	}
	made = err == nil
	var st unix.Stat_t
	if err := retryEINTR(func() error { return unix.Lstat(dir, &st) }); err != nil {
		return made, err
	}
	if uint32(st.Mode)&unix.S_IFMT != unix.S_IFDIR {
		return made, errNotDir
	}
	if made && uint32(st.Mode)&0o777 != dirMode {
		// Chmod takes the name because a directory without permissions cannot be opened.
		return made, retryEINTR(func() error { return unix.Chmod(dir, dirMode) })
	}
	return made, nil
}

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
		if err == nil && uint32(named.Mode)&unix.S_IFMT != unix.S_IFDIR {
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
