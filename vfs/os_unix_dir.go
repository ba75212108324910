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
		if err := makeDir(missing[i]); err != nil {
			return WrapError(OpMkdir, missing[i], err)
		}
		if err := syncDir(filepath.Dir(missing[i])); err != nil {
			return WrapError(OpMkdir, missing[i], err)
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

// A lock is an advisory lock on two open file descriptions of its own, of a file
// and of its directory. The kernel drops it when the descriptions go, however the
// process ends, so it is never stale; and as each Lock opens both anew, a second
// one in the same process meets the first as a stranger would.
//
// The file is what others see, and all there is where a directory cannot be
// locked. The directory stays when somebody removes the file.
type lock struct {
	dir, file int // notLocked where there is none, or the system locks no directories
	once      sync.Once
}

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
		_ = unlock(fd) // it is of what has another name by now, or none
		if err != nil {
			return nil, WrapError(OpLockDir, dir, err)
		}
	}
}

// isOf reports whether fd is of what was named.
func isOf(fd int, named *unix.Stat_t) (bool, error) {
	var open unix.Stat_t
	err := retryEINTR(func() error { return unix.Fstat(fd, &open) })
	return open.Dev == named.Dev && open.Ino == named.Ino, err
}

// lockOpened opens a file and its directory and takes their locks: that of the
// directory first, so that of two who come at once one has both.
func lockOpened(op OpKind, name string, opened func(string) (int, error), how int) (io.Closer, error) {
	dir, err := lockDir(filepath.Dir(name), how)
	if err != nil {
		return nil, WrapError(op, name, err)
	}
	file, err := lockFile(name, opened, how)
	if err != nil {
		_ = unlock(dir) // the error is that of the file
		return nil, WrapError(op, name, err)
	}
	return &lock{dir: dir, file: file}, nil
}

// lockDir opens a directory and takes its lock. It returns notLocked where that
// cannot be for another reason than that somebody has it.
func lockDir(dir string, how int) (int, error) {
	fd, err := open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.EMFILE || err == unix.ENFILE {
		return notLocked, err
	}
	if err != nil {
		return notLocked, nil // if it is not there, the file is not either
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

// lockFile opens a file and takes its lock.
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
		// The file was removed or replaced between the open and the lock: what
		// is locked now is not what others will open.
	}
}

// flock takes the lock of fd if nobody has it.
func flock(fd, how int) error {
	err := retryEINTR(func() error { return unix.Flock(fd, how|unix.LOCK_NB) })
	if err == unix.EWOULDBLOCK {
		err = ErrLocked
	}
	return err
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

// Close ends the lock.
func (l *lock) Close() error {
	err := ErrClosed
	l.once.Do(func() { err = errors.Join(unlock(l.file), unlock(l.dir)) })
	return err
}

// unlock ends the lock of fd and closes it. It unlocks explicitly: a process that
// another goroutine is just forking shares the description until it executes.
func unlock(fd int) error {
	if fd == notLocked {
		return nil
	}
	err := retryEINTR(func() error { return unix.Flock(fd, unix.LOCK_UN) })
	return errors.Join(err, unix.Close(fd))
}
