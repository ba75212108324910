package state

import (
	"errors"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// NewTableFile creates the file of a new table.
func (s *Store) NewTableFile() (base.FileNum, vfs.File, error) {
	return s.newFile(base.TableName, vfs.CatTable)
}

// NewValueFile creates the file of a new value file.
func (s *Store) NewValueFile() (base.FileNum, vfs.File, error) {
	return s.newFile(base.ValueName, vfs.CatValue)
}

func (s *Store) newFile(name func(base.FileNum) string, cat vfs.Category) (base.FileNum, vfs.File, error) {
	s.exec.At(work.PointCreate)
	n := base.FileNum(s.nextFile.Add(1) - 1)
	f, err := s.o.FS.Create(s.o.FS.Join(s.o.Dir, name(n)), cat)
	return n, f, err
}

// RemoveFile deletes a file of the database that nothing refers to. After a failed
// manifest write it is unknown what the manifest refers to, so no file goes. The files of
// a database that is only read belong to others.
func (s *Store) RemoveFile(name string) {
	if s.o.ReadOnly || s.manifest.Err() != nil {
		return
	}
	err := s.o.FS.Remove(s.o.FS.Join(s.o.Dir, name))
	switch {
	case err == nil:
		s.report(event.FileDeleted{Name: name})
	case !errors.Is(err, vfs.ErrNotExist):
		s.report(event.Warning{What: "a file that is not needed could not be removed", Err: err})
	}
}

// RemoveOrphans deletes the tables and value files that unfinished jobs of an
// earlier opening left. New files get higher numbers than orphans, so an orphan
// that cannot be deleted is in nothing's way. Foreign files go too.
func (s *Store) RemoveOrphans() error {
	names, err := s.Orphans()
	for _, name := range names {
		if n := fileNumOf(name); n < base.ForeignFile {
			s.nextFile.Store(max(s.nextFile.Load(), uint64(n)+1))
		}
		s.RemoveFile(name)
	}
	return err
}

// fileNumOf returns the number in the name of a table or a value file.
func fileNumOf(name string) base.FileNum {
	n, ok := base.ParseTableName(name)
	if !ok {
		n, _ = base.ParseValueName(name)
	}
	return n
}

// Orphans returns the tables and value files that the manifest does not know.
func (s *Store) Orphans() (orphans []string, err error) {
	names, err := s.o.FS.List(s.o.Dir)
	if err != nil {
		return nil, err
	}
	tables, values := filesOf(s.Version())
	for _, name := range names {
		table, isTable := base.ParseTableName(name)
		file, isValues := base.ParseValueName(name)
		live := isTable && tables[table] || isValues && values[file]
		if (isTable || isValues) && (!live || mutant.On(mutant.LiveOrphan)) {
			orphans = append(orphans, name)
		}
	}
	return orphans, nil
}
