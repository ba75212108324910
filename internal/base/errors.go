package base

import (
	"errors"
	"fmt"
)

// ErrCorrupt marks every error that says stored bytes are not what was
// written.
var ErrCorrupt = errors.New("stoat: corrupt data")

// ErrVersion marks every error that says a file was written by a version of stoat
// whose format this one does not know. It is no damage.
var ErrVersion = errors.New("stoat: database of a later version")

// A CorruptionError tells where stored bytes are wrong. errors.Is(err,
// ErrCorrupt) holds for it.
type CorruptionError struct {
	// File is the name of the file; empty until a layer that knows it adds it.
	File string
	// Offset is where in the file the damage was seen, or -1.
	Offset int64
	// What names the damaged thing: "record checksum", "segment header".
	What string
	// Got and Want are the observed and the expected, as text. Either may be
	// empty where there is none.
	Got, Want string
}

// Error formats the place, the thing, and got and want.
func (e *CorruptionError) Error() string {
	s := "stoat: corrupt data"
	if e.File != "" {
		s += " in " + e.File
	}
	if e.Offset >= 0 {
		s += fmt.Sprintf(" at offset %d", e.Offset)
	}
	s += ": " + e.What
	if e.Got != "" || e.Want != "" {
		s += fmt.Sprintf(": got %s, want %s", e.Got, e.Want)
	}
	return s
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorrupt }

// Corrupt returns a CorruptionError for what at offset, to which a layer
// above may add the file's name with InFile.
func Corrupt(offset int64, what string, got, want any) *CorruptionError {
	return &CorruptionError{Offset: offset, What: what, Got: fmt.Sprint(got), Want: fmt.Sprint(want)}
}

// InFile fills in the file name of a CorruptionError inside err that has none
// yet, and returns err.
func InFile(err error, name string) error {
	var c *CorruptionError
	if errors.As(err, &c) && c.File == "" {
		c.File = name
	}
	return err
}
