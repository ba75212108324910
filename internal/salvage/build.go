package salvage

import (
	"context"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/newdir"
	"github.com/stoatdb/stoat/internal/seal"
)

// suffix is added to the name of the new directory until the database in it is complete.
const suffix = ".tmp"

// build makes the new database under a temporary name, and then gives it its name.
func (s *salvager) build(ctx context.Context) error {
	fs, dir := s.o.FS, s.o.To
	if err := newdir.Unused(fs, dir); err != nil {
		return err
	}
	s.to = target{fs: fs, dir: dir + suffix}
	if s.to.dir == fs.Join(s.o.From) {
		return base.Invalid("%s is the name that the new directory has until it is complete", s.o.From)
	}
	if err := fs.MkdirAll(s.to.dir); err != nil {
		return err
	}
	claim, err := fs.LockDir(s.to.dir)
	if err != nil {
		return err
	}
	defer func() { _ = claim.Close() }() // nothing is written through it
	if err := s.empty(); err != nil {
		return err
	}
	doubt := false
	if err = s.fill(ctx); err == nil {
		doubt, err = newdir.Publish(fs, s.to.dir, dir)
	}
	if err != nil {
		if !doubt { // the next run removes what this cannot
			_ = s.empty()
			_ = fs.Remove(s.to.dir)
		}
		return err
	}
	_ = newdir.AddLock(fs, dir) // the next writer makes it
	return nil
}

// fill makes the database.
func (s *salvager) fill(ctx context.Context) error {
	if s.sealer != nil {
		keys, err := seal.Create(ctx, s.keyOptions(s.o.FS, s.to.dir, false))
		if err != nil {
			return err
		}
		s.to.fs, s.to.seal = keys.FS(s.o.FS), keys
	}
	tables, err := s.copyAll()
	if err != nil {
		return err
	}
	for _, name := range s.spare {
		if err := s.to.remove(name); err != nil {
			return err
		}
	}
	if err := s.to.fs.SyncDir(s.to.dir); err != nil {
		return err
	}
	state := s.newState(tables)
	s.report.resolve(s.spaces)
	m, err := manifest.CreateFor(s.to.fs, s.to.dir, state, s.o.Random, s.to.seal)
	if err != nil {
		return err
	}
	return m.Close()
}

// empty removes what an unfinished run has left. It fails if there are other files.
func (s *salvager) empty() error {
	fs := s.o.FS
	names, err := fs.List(s.to.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !manifest.IsFileOfNew(name) {
			return fmt.Errorf("%s has a file that salvage did not make: %s", s.to.dir, name)
		}
	}
	for _, name := range names {
		if err := fs.Remove(fs.Join(s.to.dir, name)); err != nil {
			return err
		}
	}
	return nil
}
