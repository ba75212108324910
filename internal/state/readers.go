package state

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/readers"
	"github.com/stoatdb/stoat/internal/work"
)

// A Reader is what a slot of the registry has for its holder.
//
// A reader announces a view before it uses it. It loads the view, stores the
// mark of it, and takes it only if it is still the newest. So a sweep that looks
// at the slots after a view was replaced finds the marks of all readers of an
// older view. A reader that shows another mark reads another view, or will look
// again and find a newer one.
//
//	reader                        job that replaces a file
//	takes the slot
//	loads view 7
//	                              installs view 8, which lacks a file of 7
//	                              finds no mark of 7: removes the file
//	stores the mark of 7
//	loads the view again: it is 8
//	stores the mark of 8
//	loads the view again: 8, and reads it
//
// The mark stays in the slot from one holder to the next. The view is mostly the
// same, so beginning to read stores only the slot. The mark of the last holder
// keeps too much until the new holder stores its own. It never keeps too little: a
// reader that has not announced a view does not use one.
type Reader struct {
	reads atomic.Pointer[mark]
	// awaited says that the mark keeps obsolete files. The holder wakes the sweeper
	// when it stores another mark or ends.
	awaited atomic.Bool
	// Attached belongs to the layer above, from one holder of the slot to the next.
	Attached any
}

// A Slot is held by one reader.
type Slot = readers.Slot[Reader]

// A mark tells which files and memtables a view may have, without keeping them.
type mark struct {
	generation uint64       // the number of views before it
	files      base.FileNum // all of its files have lower numbers
	filesOnly  bool         // the reader needs no memtables
}

// everyFile is above the numbers of all files.
const everyFile = base.FileNum(math.MaxUint64)

// Acquire takes a slot with a snapshot of everything visible. After Closing it
// returns ErrClosed.
func (s *Store) Acquire() (*Slot, error) { return s.acquireAt(&s.visible) }

// AcquireApplied is Acquire with a snapshot of everything applied, visible or not. A power
// cut may take what the reader sees. So no result of the reader may leave the database
// before the snapshot is visible.
//
// Such a snapshot may be ahead of visible. Jobs keep every version after visible, and the
// newest one up to it. So they keep what the snapshot shows.
func (s *Store) AcquireApplied() (*Slot, error) { return s.acquireAt(&s.applied) }

// acquireAt takes a slot for a reader of what visible covers.
func (s *Store) acquireAt(visible *atomic.Uint64) (*Slot, error) {
	if s.closed.Load() {
		return nil, base.ErrClosed
	}
	slot := s.readers.Acquire(visible)
	if s.closed.Load() {
		s.Release(slot)
		return nil, base.ErrClosed
	}
	return slot, nil
}

// nothing is the mark of a holder that reads neither memtables nor files.
var nothing = &mark{generation: math.MaxUint64, filesOnly: true}

// Attend takes a slot that keeps nothing but the memory of the store after Shut: no
// version of a key, no memtable and no file.
func (s *Store) Attend() (*Slot, error) {
	s.attended.Add(1)
	return s.attendAt(s.readers.NoSnapshot())
}

// AttendSnapshot is Attend with a snapshot of everything visible. So the expiry horizon
// does not pass the time after the call.
func (s *Store) AttendSnapshot() (*Slot, error) { return s.attendAt(&s.visible) }

func (s *Store) attendAt(visible *atomic.Uint64) (*Slot, error) {
	slot, err := s.acquireAt(visible)
	if err == nil {
		s.setMark(&slot.Data, nothing)
	}
	return slot, err
}

// Reading returns a number that changes when readers of a snapshot begin, and how many there
// are.
func (s *Store) Reading() (begun uint64, open int) {
	attended := s.attended.Load()
	begun, open = s.readers.Begun()
	return begun - attended, open
}

// AcquireForCommit takes a slot for a commit that is under way, for which Close
// waits.
func (s *Store) AcquireForCommit() *Slot { return s.readers.Acquire(&s.visible) }

// Release ends a reader. After Shut the last one gives memory and files back.
func (s *Store) Release(slot *Slot) {
	slot.Release()
	s.wakeSweeper(&slot.Data) // another reader may hold it by now: the sweeper looks again
	if s.closed.Load() {
		s.reap()
	}
}

// Begin returns the newest view for a reader that was given slot. The view stays
// until the slot is released or pinned again, and has all that the snapshot of
// the slot sees.
func (s *Store) Begin(slot *Slot) *View {
	v := s.view.Load() // after the slot was taken
	s.exec.At(work.PointLoaded)
	return s.confirm(slot, v)
}

// BeginSnapshot is Begin, and returns the version that the reader sees. In a database
// that follows another process, a later view may lack what an earlier version sees. So
// the view and the version must be of one moment.
func (s *Store) BeginSnapshot(slot *Slot) (*View, base.SeqNum) {
	if !s.o.Follows {
		seq := slot.Seq()
		return s.Begin(slot), seq
	}
	for {
		shown := s.shown.Load()
		seq := s.Visible() // before the view, which may get more memtables
		v := s.Begin(slot)
		if shown%2 == 0 && s.shown.Load() == shown {
			return v, seq
		}
		runtime.Gosched()
	}
}

// Pin is Begin in the middle of the work of a reader. The view may be newer than
// the snapshot of the slot.
func (s *Store) Pin(slot *Slot) *View { return s.confirm(slot, s.view.Load()) }

// confirm announces the newest view, and returns it. Mostly that is v.
func (s *Store) confirm(slot *Slot, v *View) *View {
	for slot.Data.reads.Load() != v.mark {
		v = s.announce(slot, v)
	}
	return v
}

// announce stores that the holder of slot is about to read v, and returns the
// view that is the newest after that.
func (s *Store) announce(slot *Slot, v *View) *View {
	s.setMark(&slot.Data, v.mark)
	if mutant.On(mutant.UnconfirmedView) {
		return v
	}
	return s.view.Load()
}

// setMark stores what a reader keeps from now on, which may be less than before.
func (s *Store) setMark(r *Reader, m *mark) {
	r.reads.Store(m)
	s.wakeSweeper(r)
}

// wakeSweeper wakes the sweeper if it waits for the holder of a slot.
func (s *Store) wakeSweeper(r *Reader) {
	if r.awaited.Load() {
		s.wakeOnce(r)
	}
}

// wakeOnce is apart, so that wakeSweeper is inlined.
func (s *Store) wakeOnce(r *Reader) {
	if r.awaited.CompareAndSwap(true, false) {
		s.hooks.Sweep()
	}
}

// HoldFiles returns the durable state, all files of which stay until slot is
// released. The state may be ahead of the view. The slot keeps nothing else,
// neither memtables nor old versions of keys.
//
// While HoldFiles loads the state, the slot keeps every file that the view has or will
// have. After that, the slot keeps the files with numbers below the next one.
func (s *Store) HoldFiles() (slot *Slot, state manifest.State, err error) {
	s.attended.Add(1)
	if slot, err = s.acquireAt(s.readers.NoSnapshot()); err != nil {
		return nil, state, err
	}
	generation := s.view.Load().mark.generation
	if !mutant.On(mutant.UntoldState) {
		slot.Data.reads.Store(&mark{generation: generation, files: everyFile, filesOnly: true})
	}
	state = s.State()
	s.exec.At(work.PointStated)
	s.setMark(&slot.Data, &mark{generation: generation, files: s.NextFile(), filesOnly: true})
	return slot, state, nil
}

// HoldView returns the newest view, which stays until slot is released. The slot keeps no
// old versions of keys.
func (s *Store) HoldView() (slot *Slot, v *View, err error) {
	s.attended.Add(1)
	if slot, err = s.acquireAt(s.readers.NoSnapshot()); err != nil {
		return nil, nil, err
	}
	return slot, s.Pin(slot), nil
}

// OldestSnapshot returns the oldest snapshot that a reader has or may take.
func (s *Store) OldestSnapshot() base.SeqNum { return s.readers.Oldest(&s.visible) }

// Snapshots returns the snapshots that readers have or may take, ascending.
func (s *Store) Snapshots() []base.SeqNum { return s.readers.Snapshots(&s.visible) }

// Readers returns how many slots are held.
func (s *Store) Readers() int { return s.readers.Active() }

// NotePublished notes when seq became visible. The caller does so for one commit
// at a time, in order.
func (s *Store) NotePublished(seq base.SeqNum, now int64) { s.published.note(seq, now) }

// OutdatedFor returns for how long at least there has been a version after seq,
// 0 if there is none.
func (s *Store) OutdatedFor(seq base.SeqNum) time.Duration {
	return s.published.since(seq, work.Now())
}
