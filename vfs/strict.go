package vfs

import (
	"errors"
	"fmt"
	"sync"
)

// Strict returns fs with one difference: after SyncDir failed on dir, every later
// SyncDir on dir returns the same error. errors.Is finds ErrNamesLost and the cause in it.
//
// A failed SyncDir may have lost every name that was not durable, and a later SyncDir
// that succeeds does not cover those names. If a directory has two users, the SyncDir
// of the first may fail, and the SyncDir of the second then succeed. The second user would
// believe that its file is durable.
//
// ErrTooManyFiles does not count as a failure: SyncDir could not open the directory, so
// it synced nothing.
func Strict(fs FS, dir string) FS { return &strict{FS: fs, dir: dir} }

type strict struct {
	FS
	dir    string
	mu     sync.Mutex // held during SyncDir on dir; guards failed
	failed error
}

// SyncDir makes the names in a directory durable. Calls on the strict directory run one
// at a time, so that none succeeds while another fails.
func (s *strict) SyncDir(dir string) error {
	if dir != s.dir {
		return s.FS.SyncDir(dir)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	err := s.FS.SyncDir(dir)
	if err == nil || errors.Is(err, ErrTooManyFiles) {
		return err
	}
	s.failed = fmt.Errorf("%w: %w", ErrNamesLost, err)
	return s.failed
}
