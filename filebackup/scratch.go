package filebackup

import (
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/newdir"
	"github.com/stoatdb/stoat/vfs"
)

// checkpointName is the name of the checkpoint in Options.Temp.
const checkpointName = "checkpoint"

// A scratch is the directory of a checkpoint that only the backup needs.
type scratch struct {
	fs    vfs.FS
	path  string
	claim io.Closer
}

// newScratch removes what a crash left, and returns a path for a checkpoint. The lock of its
// directory keeps other backups out.
func newScratch(fs vfs.FS, dir string) (*scratch, error) {
	dir, err := fs.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &scratch{fs: fs, path: fs.Join(dir, checkpointName)}
	if s.claim, err = newdir.Lock(fs, dir); err != nil {
		return nil, err
	}
	if err := s.clear(); err != nil {
		return nil, errors.Join(err, s.claim.Close())
	}
	return s, nil
}

// clear removes the checkpoint. The next checkpoint removes an unfinished one.
func (s *scratch) clear() error {
	names, err := s.fs.List(s.path)
	if errors.Is(err, vfs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := category(name); !ok && name != newdir.LockName {
			return fmt.Errorf("%s has a file that no backup made: %s", s.path, name)
		}
	}
	for _, name := range names {
		if err := s.fs.Remove(s.fs.Join(s.path, name)); err != nil {
			return err
		}
	}
	return s.fs.Remove(s.path)
}

// remove removes the directory. It stays if the caller had it before with other files.
func (s *scratch) remove() error {
	err := s.clear()
	if err == nil {
		_ = s.fs.Remove(s.fs.Dir(s.path))
	}
	return errors.Join(err, s.claim.Close())
}
