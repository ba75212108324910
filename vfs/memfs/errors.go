package memfs

import "errors"

// Errors that callers have no reason to branch on.
var (
	errNotDir     = errors.New("not a directory")
	errIsDir      = errors.New("is a directory")
	errNotEmpty   = errors.New("directory not empty")
	errReadHandle = errors.New("handle was opened for reading")
	errInvalid    = errors.New("invalid argument")
	errBeyondEnd  = errors.New("range lies beyond the end")
)
