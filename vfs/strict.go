package vfs

import (
	"errors"
	"sync"
)

// Strict returns fs with one difference: once SyncDir has failed on dir, it
// fails on it for good, with the same error. ErrTooManyFiles is no such failure:
// the directory could not be opened, and so nothing was synced.
//
// A failed sync may have taken back any name that was not durable, and one that
// succeeds later says nothing about those. Whoever shares a directory with
// others does not even know of the failure: their sync may have failed, his own
// succeeds, and the name of his file is gone with the next power cut.
func Strict(fs FS, dir string) FS { return &strict{FS: fs, dir: dir} }

type strict struct {
	FS
	dir    string
	mu     sync.Mutex
	failed error
}

// SyncDir makes the entries of a directory durable. Calls for the strict one
// take turns, so that none succeeds behind one that is failing.
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
	if !errors.Is(err, ErrTooManyFiles) {
		s.failed = err
	}
	return err
}
