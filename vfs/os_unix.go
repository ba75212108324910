//go:build linux || darwin || freebsd

package vfs

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// openFlags are used by every open. O_NOFOLLOW keeps a symbolic link in the directory
// from redirecting reads and writes. O_NONBLOCK keeps a FIFO in the directory from
// blocking the open; regular files ignore it.
const openFlags = unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK

func (osFS) Create(name string, _ Category) (File, error) {
	fd, err := createExclusive(name)
	if err != nil {
		return nil, WrapError(OpCreate, name, err)
	}
	return newOSFile(fd, name), nil
}

func (osFS) Open(name string, _ Category) (File, error) {
	return openExisting(OpOpen, name, unix.O_RDONLY)
}

func (osFS) OpenReadWrite(name string, _ Category) (File, error) {
	return openExisting(OpOpenReadWrite, name, unix.O_RDWR)
}

// createExclusive creates a file. It sets fileMode even if the umask removed bits from
// it.
func createExclusive(name string) (int, error) {
	fd, err := open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|openFlags, fileMode)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	err = retryEINTR(func() error { return unix.Fstat(fd, &st) })
	if err == nil && uint32(st.Mode)&0o777 != fileMode {
		err = retryEINTR(func() error { return unix.Fchmod(fd, fileMode) })
	}
	if err != nil {
		// The caller gets the first error. If Unlink fails too, an empty file remains.
		_ = unix.Unlink(name)
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openExisting opens a regular file. It fails for everything else.
func openExisting(op OpKind, name string, flags int) (File, error) {
	fd, err := open(name, flags|openFlags, 0)
	if err != nil {
		return nil, WrapError(op, name, err)
	}
	var st unix.Stat_t
	if err = retryEINTR(func() error { return unix.Fstat(fd, &st) }); err == nil {
		err = requireRegular(&st)
	}
	if err != nil {
		_ = unix.Close(fd) // nothing was written through it
		return nil, WrapError(op, name, err)
	}
	return newOSFile(fd, name), nil
}

func isDir(st *unix.Stat_t) bool { return uint32(st.Mode)&unix.S_IFMT == unix.S_IFDIR }

func requireRegular(st *unix.Stat_t) error {
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return errIsDir
	}
	return errNotRegular
}

func open(name string, flags int, mode uint32) (fd int, err error) {
	err = retryEINTR(func() error {
		fd, err = unix.Open(name, flags, mode)
		return err
	})
	// With O_NOFOLLOW, Linux returns ELOOP for a symbolic link and FreeBSD EMLINK.
	if err == unix.ELOOP || err == unix.EMLINK {
		err = errSymlink
	}
	return fd, err
}

func (osFS) Rename(oldName, newName string) error {
	err := retryEINTR(func() error { return unix.Rename(oldName, newName) })
	return WrapError(OpRename, oldName, err)
}

func (osFS) Link(oldName, newName string) error {
	err := retryEINTR(func() error { return unix.Link(oldName, newName) })
	return WrapError(OpLink, newName, err)
}

func (osFS) Remove(name string) error {
	err := retryEINTR(func() error { return unix.Unlink(name) })
	// For a directory, unlink returns EISDIR on Linux and EPERM on other systems.
	// EPERM can also mean a file that must not be unlinked. Rmdir then returns
	// ENOTDIR, and the error of unlink is the right one to report.
	if err == unix.EISDIR || err == unix.EPERM {
		errDir := retryEINTR(func() error { return unix.Rmdir(name) })
		if errDir != unix.ENOTDIR {
			err = errDir
		}
	}
	return WrapError(OpRemove, name, err)
}

func (osFS) Stat(name string) (Info, error) {
	var st unix.Stat_t
	err := retryEINTR(func() error { return unix.Stat(name, &st) })
	if err != nil {
		return Info{}, WrapError(OpStat, name, err)
	}
	return Info{
		Size:      st.Size,
		Allocated: int64(st.Blocks) * 512,
		Dir:       isDir(&st),
	}, nil
}

func syncDir(dir string) error {
	fd, err := open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = fullSync(fd)
	_ = unix.Close(fd) // opened for reading
	if err == unix.EINVAL {
		// Some network file systems cannot sync directories. The server may do so
		// by itself.
		return nil
	}
	return err
}

// retryEINTR repeats f while signals interrupt it. This is common on file systems that
// allow interruption (FUSE, CIFS, NFS): the Go runtime preempts goroutines by signals.
func retryEINTR(f func() error) error {
	for {
		err := f()
		if err != unix.EINTR {
			return err
		}
	}
}

// classify maps an errno to the error of this package that callers branch on, or nil.
func classify(err error) error {
	switch {
	case errors.Is(err, io.ErrShortWrite):
		return ErrIO
	case errors.Is(err, errSymlink), errors.Is(err, errNotRegular):
		return ErrPermission
	}
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return nil
	}
	if isDamage(errno) {
		return ErrIO
	}
	switch errno {
	case unix.ENOENT:
		return ErrNotExist
	case unix.EEXIST:
		return ErrExist
	case unix.ENOSPC, unix.EDQUOT, unix.EFBIG:
		return ErrNoSpace
	case unix.EIO, unix.EFAULT:
		return ErrIO
	case unix.EACCES, unix.EPERM:
		return ErrPermission
	case unix.EROFS:
		return ErrReadOnly
	case unix.EMFILE, unix.ENFILE:
		return ErrTooManyFiles
	case unix.ENOSYS, unix.EOPNOTSUPP:
		return ErrUnsupported
	}
	return nil
}
