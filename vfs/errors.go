package vfs

import (
	"errors"
	"io"
)

// More errors that an operating system distinguishes. Callers of stoat branch
// on few of them; fault rules inject all.
var (
	// ErrIO is a device that could not read or write.
	ErrIO = errors.New("vfs: input/output error")
	// ErrPermission is a file that this user may not touch.
	ErrPermission = errors.New("vfs: permission denied")
	// ErrReadOnly is a file system mounted for reading only.
	ErrReadOnly = errors.New("vfs: read-only file system")
	// ErrTooManyFiles is a process or a system out of file descriptors.
	ErrTooManyFiles = errors.New("vfs: too many open files")
	// ErrClosed is a handle used after Close.
	ErrClosed = errors.New("vfs: file is closed")
	// ErrUnsupported is an operation that this system does not have.
	ErrUnsupported = errors.New("vfs: not supported on this system")
)

// Errors of the implementations themselves, without a class to branch on.
var (
	errNotRegular = errors.New("not a regular file")
	errNotDir     = errors.New("not a directory")
	errIsDir      = errors.New("is a directory")
	errInvalid    = errors.New("invalid argument")
	errBeyondEnd  = errors.New("range lies beyond the end")
	errSymlink    = errors.New("is a symbolic link")
)

// A PathError ties a failure to the operation and the path. errors.Is finds
// the class (ErrNotExist, ErrNoSpace, …) as well as the cause.
type PathError struct {
	// Op is the name of the operation, as OpKind.String gives it.
	Op   string
	Path string
	// Err is the cause, on the operating system an errno.
	Err error
	// class is the error of this package that the cause amounts to, or nil.
	class error
}

// Error gives the operation, the path and the cause.
func (e *PathError) Error() string { return e.Op + " " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *PathError) Unwrap() error { return e.Err }

// Is reports whether target is the class of e.
func (e *PathError) Is(target error) bool {
	return e.class != nil && target == e.class
}

// WrapError wraps err with the operation and the path. io.EOF passes as it is,
// because readers compare it with ==, and an error that already has a path
// keeps it.
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
