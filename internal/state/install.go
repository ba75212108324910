package state

import (
	"errors"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// Install makes the files of a finished job live. It makes their names durable,
// appends one edit to the manifest, and shows a view with it. change makes what
// else differs in the view; it may be nil.
func (s *Store) Install(edit manifest.Edit, change func(v View) View) error {
	s.exec.At(work.PointInstall)
	s.load(&edit) // before the lock: it takes long, and other jobs may install meanwhile
	return s.install(edit, change, len(edit.AddTables)+len(edit.AddValues) > 0)
}

// InstallNamed is Install for files whose names are durable. It loads no table into
// memory, which takes long.
func (s *Store) InstallNamed(edit manifest.Edit) error {
	s.exec.At(work.PointInstall)
	return s.install(edit, nil, false)
}

func (s *Store) install(edit manifest.Edit, change func(v View) View, syncNames bool) error {
	s.installing.Lock()
	defer s.installing.Unlock()
	if syncNames {
		if err := s.SyncNames(); err != nil {
			return err
		}
	}
	edit.NextFile = manifest.Some(s.nextFile.Load())
	if err := s.Record(edit); err != nil {
		return err
	}
	s.exec.At(work.PointEdited)
	state := s.State()
	s.change(func(v View) View {
		if change != nil {
			v = change(v)
		}
		v.Tree = s.files.View(state.Version, v.Tree)
		return v
	})
	s.reportFiles(&edit)
	s.hooks.Installed(&state, &edit)
	return nil
}

// SyncNames makes the names of all files in the directory durable.
func (s *Store) SyncNames() error {
	if mutant.On(mutant.NoTableDirSync) {
		return nil
	}
	err := s.o.FS.SyncDir(s.o.Dir)
	if errors.Is(err, vfs.ErrNamesLost) {
		s.namesLost.CompareAndSwap(nil, &err)
	}
	return err
}

// load brings the tables that edit adds into memory before the first read, as far
// as the budget has room. A closing database no longer needs that.
func (s *Store) load(edit *manifest.Edit) {
	if len(edit.AddTables) == 0 || s.closed.Load() {
		return
	}
	s.holdingPages(func(*manifest.Version) {
		s.files.Load(edit.AddTables, edit.DropTables, s.PagesBudget(s.ReaderBytes(nil)), s.closed.Load)
	})
}

// LoadMissed loads a table that many reads found not in memory, if the budget has room; see
// tree.Files.LoadMissed. available returns how much memory the system could give to tables.
func (s *Store) LoadMissed(available func() int64) {
	if s.closed.Load() || !s.files.HasMissed() {
		return
	}
	s.holdingPages(func(v *manifest.Version) {
		limit := min(s.PagesBudget(s.ReaderBytes(nil)), int64(missedShare*float64(available())))
		s.files.LoadMissed(v, limit, s.closed.Load)
	})
}

// LoadValues loads a value file that will replace old into memory; see
// tree.Files.LoadValues.
func (s *Store) LoadValues(fresh, old *manifest.ValueFile) {
	s.holdingPages(func(*manifest.Version) { s.files.LoadValues(fresh, old) })
}

// holdingPages calls load, which reads files through the readers that transactions
// share. A reader's slot keeps those that are retired meanwhile, and the files of v. It does
// not keep files that were replaced before: their readers may be closed at any moment.
func (s *Store) holdingPages(load func(v *manifest.Version)) {
	slot, state, err := s.HoldFiles()
	if err != nil {
		return // the database is closing: it needs nothing in memory
	}
	defer s.Release(slot)
	_ = fault.Guard(func() error { // a reader that meets the lost page is told
		load(state.Version)
		return nil
	})
}

// reportFiles reports the files that an edit added. A moved table is not new.
func (s *Store) reportFiles(edit *manifest.Edit) {
	moved := make(map[base.FileNum]bool, len(edit.DropTables))
	for _, t := range edit.DropTables {
		moved[t.Num] = true
	}
	for _, t := range edit.AddTables {
		if !moved[t.Num] {
			s.report(event.FileCreated{Name: base.TableName(t.Num), Size: t.Size})
		}
	}
	for _, v := range edit.AddValues {
		s.report(event.FileCreated{Name: base.ValueName(v.File), Size: v.Size})
	}
}
