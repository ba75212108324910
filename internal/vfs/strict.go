package vfs

import "sync"

// Strict returns fs with one difference: once SyncDir has failed on a
// directory, it fails on it for good, with the same error.
//
// A failed sync may have taken back any name that was not durable, and one that
// succeeds later says nothing about those. Whoever shares a directory with
// others does not even know of the failure: their sync may have failed, his own
// succeeds, and the name of his file is gone with the next power cut.
func Strict(fs FS) FS { return &strict{FS: fs, failed: map[string]error{}} }

type strict struct {
	FS
	mu     sync.Mutex
	failed map[string]error // by directory
}

// SyncDir makes the entries of a directory durable. Calls take turns, so that
// none succeeds behind one that is failing.
func (s *strict) SyncDir(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failed[dir]; err != nil {
		return err
	}
	err := s.FS.SyncDir(dir)
	if err != nil {
		s.failed[dir] = err
	}
	return err
}
