package state

import (
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
)

// obsolete lists what no new reader can reach, while older readers may still use it. It has
// memtables that were flushed, files that were replaced, and readers that were
// retired. A reader keeps what its view has, and nothing that came and went since.
//
//	in use --a change of the view--> obsolete --no reader uses it--> deleted
type obsolete struct {
	// The bytes of the value files, of the memtables, and of the decrypted pages of
	// retired readers in the list.
	valueBytes, memtableBytes, retiredBytes atomic.Int64

	sweeping lock.Mutex[lock.Sweeping] // held to delete

	mu   lock.Mutex[lock.Obsolete]
	list []Obsolete // guarded by mu; the oldest first
}

// An Obsolete is what a change of the view left behind: a memtable, a file, or a retired
// reader of a file.
type Obsolete struct {
	memtable *memtable.Table // nil if it is a file
	file     base.FileNum    // the number in its name
	values   bool            // it is a value file
	retired  io.Closer       // the reader of a file that stays; nil otherwise
	bytes    int64           // of memory, or of the file
	// Views of the generations from firstIn to before gone have had it. Of a file
	// the number tells that instead: numbers are given in the order of time.
	firstIn, gone uint64
	since         time.Time
}

// in reports whether the view with a mark may have it.
func (o *Obsolete) in(m *mark) bool {
	if o.gone <= m.generation || mutant.On(mutant.NoBarrier) {
		return false
	}
	if o.memtable != nil {
		return o.firstIn <= m.generation && !m.filesOnly
	}
	return o.retired != nil || o.file < m.files
}

// FlushedMemtables returns what a flush of v.Memtables[from:] leaves behind.
func (v *View) FlushedMemtables(from int) (gone []Obsolete) {
	for i, t := range v.Memtables[from:] {
		gone = append(gone, Obsolete{memtable: t, bytes: t.Bytes(), firstIn: v.firstIn[from+i]})
	}
	return gone
}

// ObsoleteTable returns a table that was replaced.
func ObsoleteTable(t *manifest.Table) Obsolete { return Obsolete{file: t.Num, bytes: t.Size} }

// ObsoleteValues returns a value file that was replaced.
func ObsoleteValues(v *manifest.ValueFile) Obsolete {
	return Obsolete{file: v.File, values: true, bytes: v.Size}
}

// Retire takes the readers of files out of use. They are closed, and the memory of their
// pages is free, once no reader of an older view is left. Retire returns how many bytes these
// are.
//
// In a database that follows another process they stay: the file may have no name any
// more, so that no later read could open it.
func (s *Store) Retire(residents []tree.Resident) (bytes int64) {
	if s.o.Follows {
		return 0
	}
	var gone []Obsolete
	for i := range residents {
		n := residents[i].PageBytes()
		if r := residents[i].Retire(); r != nil {
			gone = append(gone, Obsolete{retired: r, bytes: n})
			bytes += n
		}
	}
	if len(gone) == 0 {
		return 0
	}
	// A reader that announces the next view comes after the readers were retired.
	s.change(func(v View) View {
		v.Tree = v.Tree.WithoutReaders()
		return v
	})
	s.Discard(gone)
	return bytes
}

// Discard takes what the newest view no longer has. Files in it will be deleted: the
// manifest must durably lack them.
func (s *Store) Discard(gone []Obsolete) {
	s.exec.At(work.PointReplaced)
	s.addObsolete(gone)
	s.exec.At(work.PointDiscarded)
	if !s.obsolete.sweeping.TryLock() {
		s.hooks.Sweep() // deleting takes long: a flush does not wait for it
		return
	}
	freed := s.sweepLocked()
	s.obsolete.sweeping.Unlock()
	s.hooks.Swept(freed)
}

// addObsolete adds what neither the newest view nor a later one has. It loads the newest
// view under mu, so that gone never falls along the list.
func (s *Store) addObsolete(gone []Obsolete) {
	o := &s.obsolete
	o.mu.Lock()
	defer o.mu.Unlock()
	generation := s.view.Load().mark.generation
	if n := len(o.list); n > 0 {
		invariant.Check(o.list[n-1].gone <= generation, "obsolete files of generation %d come after those of %d", generation, o.list[n-1].gone)
	}
	for _, x := range gone {
		x.gone, x.since = generation, time.Now()
		o.count(&x, x.bytes)
		o.list = append(o.list, x)
	}
}

// count adds bytes to those of the kind of x.
func (o *obsolete) count(x *Obsolete, bytes int64) {
	switch {
	case x.memtable != nil:
		o.memtableBytes.Add(bytes)
	case x.retired != nil:
		o.retiredBytes.Add(bytes)
	case x.values:
		o.valueBytes.Add(bytes)
	}
}

// Sweep deletes what no reader uses any more.
func (s *Store) Sweep() {
	s.obsolete.sweeping.Lock()
	freed := s.sweepLocked()
	s.obsolete.sweeping.Unlock()
	if !s.closed.Load() {
		s.hooks.Swept(freed)
	}
}

// sweepLocked deletes what no reader uses any more, and reports whether there was
// anything. It calls no hook: the caller does that after it has given the lock
// back. The caller holds sweeping.
func (s *Store) sweepLocked() (freed bool) {
	unused := s.takeUnused()
	for i := range unused {
		s.delete(&unused[i])
	}
	return len(unused) > 0
}

// deleteObsolete deletes everything obsolete after the last reader. A caller that takes a slot
// now is refused before it reads, but the slot may show the mark of an earlier holder.
func (s *Store) deleteObsolete() {
	o := &s.obsolete
	o.sweeping.Lock()
	defer o.sweeping.Unlock()
	o.mu.Lock()
	gone := o.list
	o.list = nil
	o.mu.Unlock()
	for i := range gone {
		s.delete(&gone[i])
	}
}

// ObsoleteEmpty reports whether everything obsolete was deleted.
func (s *Store) ObsoleteEmpty() bool {
	s.obsolete.mu.Lock()
	defer s.obsolete.mu.Unlock()
	return len(s.obsolete.list) == 0
}

// ObsoleteValueBytes returns the size of the value files that wait to be deleted.
func (s *Store) ObsoleteValueBytes() int64 { return s.obsolete.valueBytes.Load() }

// RetiredBytes returns the memory of the pages of retired readers that are not closed.
func (s *Store) RetiredBytes() int64 { return s.obsolete.retiredBytes.Load() }

// HasRetired reports whether a retired reader is not closed.
func (s *Store) HasRetired() bool {
	s.obsolete.mu.Lock()
	defer s.obsolete.mu.Unlock()
	return slices.ContainsFunc(s.obsolete.list, func(x Obsolete) bool { return x.retired != nil })
}

// ObsoleteMemtableBytes returns the memory of flushed memtables that readers use.
func (s *Store) ObsoleteMemtableBytes() int64 { return s.obsolete.memtableBytes.Load() }

// ObsoleteFiles returns how many files wait to be deleted, their size, and for how
// long the oldest of them has waited.
func (s *Store) ObsoleteFiles() (files int, bytes int64, age time.Duration) {
	s.obsolete.mu.Lock()
	defer s.obsolete.mu.Unlock()
	for i := range s.obsolete.list {
		x := &s.obsolete.list[i]
		if x.memtable != nil || x.retired != nil {
			continue
		}
		if files == 0 {
			age = time.Since(x.since)
		}
		files++
		bytes += x.bytes
	}
	return files, bytes, age
}

// takeUnused takes what no reader uses from the list.
func (s *Store) takeUnused() (unused []Obsolete) {
	o := &s.obsolete
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) == 0 {
		return nil
	}
	marks := s.keepersLocked()
	kept := o.list[:0]
	for i := range o.list {
		x := &o.list[i]
		if slices.ContainsFunc(marks, x.in) || x.memtable != nil && mutant.On(mutant.KeepMemtables) || x.memtable == nil && mutant.On(mutant.KeepReplaced) {
			kept = append(kept, *x)
		} else {
			unused = append(unused, *x)
		}
	}
	clear(o.list[len(kept):])
	o.list = kept
	return unused
}

// keepersLocked returns the marks of readers that keep a part of the list, each
// once. The caller holds mu.
func (s *Store) keepersLocked() (marks []*mark) {
	for slot := range s.readers.Held {
		if m := s.obsolete.keptForLocked(slot); m != nil && !slices.Contains(marks, m) {
			marks = append(marks, m)
		}
	}
	return marks
}

// keptForLocked returns the mark of the holder of slot if the mark keeps a part of the
// list, and nil otherwise. With a mark, the sweeper awaits the holder. The holder wakes the
// sweeper when it ends or stores another mark, unless it did so before the second look at
// the slot. The caller holds mu.
func (o *obsolete) keptForLocked(slot *Slot) *mark {
	newest := o.list[len(o.list)-1].gone
	for {
		m := slot.Data.reads.Load()
		if m == nil || m.generation >= newest || !slices.ContainsFunc(o.list, func(x Obsolete) bool { return x.in(m) }) {
			return nil
		}
		slot.Data.awaited.Store(true)
		if !slot.Held() {
			return nil
		}
		if slot.Data.reads.Load() == m {
			return m
		}
	}
}

// delete frees memory or deletes a file. A file that cannot be deleted now is an
// orphan, which the next Open deletes.
func (s *Store) delete(x *Obsolete) {
	switch {
	case x.memtable != nil:
		x.memtable.Release()
	case x.retired != nil:
		if err := x.retired.Close(); err != nil {
			s.report(event.Warning{What: "a file could not be closed", Err: err})
		}
	case x.values:
		s.DeleteValues(x.file)
	default:
		s.DeleteTables([]base.FileNum{x.file})
	}
	s.obsolete.count(x, -x.bytes)
}

// DeleteTables closes tables and deletes their files.
func (s *Store) DeleteTables(tables []base.FileNum) {
	if err := s.files.Drop(tables); err != nil {
		s.report(event.Warning{What: "a table could not be closed", Err: err})
	}
	for _, n := range tables {
		s.RemoveFile(base.TableName(n))
	}
}

// DeleteValues closes a value file and deletes it.
func (s *Store) DeleteValues(num base.FileNum) {
	if err := s.files.DropValues([]base.FileNum{num}); err != nil {
		s.report(event.Warning{What: "a value file could not be closed", Err: err})
	}
	s.RemoveFile(base.ValueName(num))
}
