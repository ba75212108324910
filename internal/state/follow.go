package state

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
)

// Follow shows readers a later state of a database that another process writes. The caller
// has called Keep, and then opened the files of next (tree.Files.OpenAll). memtables, the
// newest first, have every entry above next.FlushedSeq and none below it, up to visible at
// least. Of those that the view had before, the caller leaves out or takes over each as a
// whole.
//
// A reader never sees a part of the change; see BeginSnapshot. One caller at a time.
func (s *Store) Follow(next manifest.State, memtables []*memtable.Table, visible base.SeqNum) {
	invariant.Check(visible >= next.FlushedSeq, "version %d is shown with tables of %d", visible, next.FlushedSeq)
	old, before := s.view.Load(), s.Version()
	s.RestoreClock(next.ClockHighMs)
	s.nextFile.Store(max(s.nextFile.Load(), next.NextFile))
	s.shown.Add(1)
	s.manifest.Adopt(next)
	s.change(func(v View) View {
		v.follow(memtables)
		v.Tree = s.files.View(next.Version, v.Tree)
		return v
	})
	s.visible.Store(uint64(visible))
	s.shown.Add(1)
	gone := append(old.without(memtables), filesWithout(before, next.Version)...)
	if len(gone) > 0 {
		s.Discard(gone)
	}
}

// Keep makes the sweeper forget the files of a version that Follow will show. A writer whose
// last edit is lost may have replaced them, and the next writer has them again. If the
// version is not shown after all, the caller discards what Keep returns.
func (s *Store) Keep(version *manifest.Version) (kept []Obsolete) {
	tables, values := filesOf(version)
	s.obsolete.sweeping.Lock() // a sweep that has begun may close the files
	defer s.obsolete.sweeping.Unlock()
	o := &s.obsolete
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = slices.DeleteFunc(o.list, func(x Obsolete) bool {
		has := x.memtable == nil && x.retired == nil && (x.values && values[x.file] || !x.values && tables[x.file])
		if has {
			o.count(&x, -x.bytes)
			kept = append(kept, x)
		}
		return has
	})
	return kept
}

// filesOf returns the numbers of the files of a version.
func filesOf(version *manifest.Version) (tables, values map[base.FileNum]bool) {
	tables, values = map[base.FileNum]bool{}, map[base.FileNum]bool{}
	for t := range version.Tables() {
		tables[t.Num] = true
	}
	for _, v := range version.Values {
		values[v.File] = true
	}
	return tables, values
}

// follow replaces the memtables.
func (v *View) follow(memtables []*memtable.Table) {
	firstIn := make([]uint64, len(memtables))
	for i, t := range memtables {
		firstIn[i] = v.mark.generation + 1
		if j := slices.Index(v.Memtables, t); j >= 0 {
			firstIn[i] = v.firstIn[j]
		}
	}
	v.Memtables, v.firstIn, v.LogFrom = memtables, firstIn, make([]base.SegmentRef, len(memtables))
}

// without returns the memtables of v that are not among those of a later view.
func (v *View) without(memtables []*memtable.Table) (gone []Obsolete) {
	for i, t := range v.Memtables {
		if !slices.Contains(memtables, t) {
			gone = append(gone, v.FlushedMemtables(i)[0])
		}
	}
	return gone
}

// filesWithout returns the files of a version that a later version does not have.
func filesWithout(before, next *manifest.Version) (gone []Obsolete) {
	tables, values := filesOf(next)
	for t := range before.Tables() {
		if !tables[t.Num] {
			gone = append(gone, ObsoleteTable(t))
		}
	}
	for _, v := range before.Values {
		if !values[v.File] {
			gone = append(gone, ObsoleteValues(v.ValueFile))
		}
	}
	return gone
}
