package memfs

import "errors"

// Causes that callers do not branch on.
var (
	errNotDir     = errors.New("not a directory")
	errIsDir      = errors.New("is a directory")
	errNotEmpty   = errors.New("directory not empty")
	errReadHandle = errors.New("file is open for reading only")
	errInvalid    = errors.New("invalid argument")
	errBeyondEnd  = errors.New("range extends beyond the end")
)
