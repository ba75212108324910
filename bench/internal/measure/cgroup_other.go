//go:build !linux

package measure

import "errors"

// ErrNoMemoryLimit says that memory cannot be limited on this system.
var ErrNoMemoryLimit = errors.New("cannot set a memory limit: only Linux has control groups")

// A MemoryLimit does not exist on this system.
type MemoryLimit struct{}

// NewMemoryLimit returns ErrNoMemoryLimit.
func NewMemoryLimit(string, int64) (*MemoryLimit, error) { return nil, ErrNoMemoryLimit }

// Path is empty.
func (*MemoryLimit) Path() string { return "" }

// Killed is false.
func (*MemoryLimit) Killed() bool { return false }

// Close does nothing.
func (*MemoryLimit) Close() error { return nil }

// JoinMemoryLimit returns ErrNoMemoryLimit.
func JoinMemoryLimit(string) error { return ErrNoMemoryLimit }
