package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// The errors that callers branch on. errors.Is finds them in the errors of FS,
// File and Mapping. [PathError] adds the operation and the path.
var (
	// ErrNotExist reports a missing file or directory. errors.Is also finds
	// fs.ErrNotExist in it.
	ErrNotExist = fmt.Errorf("vfs: %w", fs.ErrNotExist)
	// ErrExist reports a name that exists already. errors.Is also finds
	// fs.ErrExist in it.
	ErrExist = fmt.Errorf("vfs: %w", fs.ErrExist)
	// ErrLocked reports a lock that another caller or process holds.
	ErrLocked = errors.New("vfs: another open in this or another process holds the lock")
	// ErrNoSpace reports an exhausted limit on data: a full disk, a disk quota, a
	// full table of inodes or a file size limit.
	ErrNoSpace = errors.New("vfs: no space left")
	// ErrIO reports a device that failed to read or write, or a file system that found
	// itself damaged.
	ErrIO = errors.New("vfs: input/output error")
	// ErrPermission reports a file that this user may not access.
	ErrPermission = errors.New("vfs: permission denied")
	// ErrReadOnly reports a write to a file system that is mounted read-only, or to a
	// medium that is write-protected.
	ErrReadOnly = errors.New("vfs: read-only file system")
	// ErrTooManyFiles reports that the process or the system has no file
	// descriptors left.
	ErrTooManyFiles = errors.New("vfs: too many open files")
	// ErrNamesLost reports that SyncDir failed, once, on a directory of [Strict]. Names of
	// files may be lost, and no later SyncDir can tell.
	ErrNamesLost = errors.New("vfs: names of files may be lost")
	// ErrClosed reports the use of a file, mapping or lock after Close.
	ErrClosed = errors.New("vfs: file is closed")
	// ErrUnsupported reports an operation that this system does not support.
	ErrUnsupported = errors.New("vfs: not supported on this system")
)

// Causes that callers do not branch on.
var (
	errNotRegular = errors.New("not a regular file")
	errNotDir     = errors.New("not a directory")
	errIsDir      = errors.New("is a directory")
	errInvalid    = errors.New("invalid argument")
	errBeyondEnd  = errors.New("range extends beyond the end")
	errSymlink    = errors.New("is a symbolic link")
)

// A PathError adds the operation and the path to the cause of a failure. errors.Is
// finds the cause in it, and the error of this package for that cause, such as
// ErrNotExist or ErrNoSpace.
type PathError struct {
	// Op is the name of the operation, as OpKind.String returns it.
	Op string
	// Path is the file or directory.
	Path string
	// Err is the cause. For the operating system it is an errno.
	Err error
	// class is the error of this package for the cause, or nil.
	class error
}

// Error returns the operation, the path and the cause.
func (e *PathError) Error() string { return e.Op + " " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *PathError) Unwrap() error { return e.Err }

// Is reports whether target is the error of this package for the cause.
func (e *PathError) Is(target error) bool { return e.class != nil && target == e.class }

// WrapError returns a [PathError] with the operation, the path and the cause err.
// It returns err unchanged if err is nil or io.EOF, which readers compare with ==,
// or if err contains a PathError already.
//
// On the operating system's errors, such as syscall.ENOSPC, errors.Is then also
// finds the errors of this package, such as ErrNoSpace.
func WrapError(op OpKind, path string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	var have *PathError
	if errors.As(err, &have) {
		return err
	}
	return &PathError{Op: op.String(), Path: path, Err: err, class: classify(err)}
}
