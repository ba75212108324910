package stoat

import (
	"math"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/txn"
)

// A reader is what a slot of the registry has for who holds it.
//
// What it reads is told before it is used: a view is loaded, its mark is stored,
// and only if the view is still the newest then, is it taken for good. So
// whoever looks at the slots after a view was replaced finds the marks of all
// that read the one before, or any older; who is seen with another mark reads
// another view, or will look again and find a newer one.
//
//	reader                        who replaces
//	takes the slot
//	loads view 7
//	                              makes view 8, which lacks a file of 7
//	                              finds no mark of 7: removes the file
//	stores the mark of 7
//	loads the view again: it is 8
//	stores the mark of 8
//	loads the view again: 8, and reads it
//
// The mark stays in the slot from one holder to the next. Mostly the view is
// still the same, so that to begin to read stores nothing more than the slot. A
// mark that is of the holder before keeps too much until the holder stores its
// own, and never too little, as that of somebody who has not looked at a view yet
// is of no account.
type reader struct {
	reads atomic.Pointer[mark]
	// awaited says that the mark keeps garbage, and that whoever stores another, or
	// ends, is to wake the sweeper.
	awaited atomic.Bool
	// state is what Views that hold the slot use one after the other. It is nil
	// before the first.
	state *txnState
}

type readerSlot = txn.Slot[reader]

// A mark tells of a view what it may hold, without keeping it in memory.
type mark struct {
	turn      uint64       // how many views there were before it
	files     base.FileNum // all of its files have lower numbers
	filesOnly bool         // its memtables need not stay
}

// everyFile is above the numbers of all files.
const everyFile = base.FileNum(math.MaxUint64)

// pin returns the newest view, all of which stays until slot is released or
// pinned again. It may be newer than the snapshot of the slot.
func (d *DB) pin(slot *readerSlot) *view { return d.confirm(slot, d.view.Load()) }

// confirm returns the newest view, as pin does. Mostly that is still v.
func (d *DB) confirm(slot *readerSlot, v *view) *view {
	for slot.Data.reads.Load() != v.mark {
		v = d.announce(slot, v)
	}
	return v
}

// announce tells that who holds slot is about to read v, and returns the view
// that is the newest after that.
func (d *DB) announce(slot *readerSlot, v *view) *view {
	d.tell(&slot.Data, v.mark)
	if mutant.On(mutant.UnconfirmedView) {
		return v
	}
	return d.view.Load()
}

// tell stores what a reader keeps from now on. That may be less than before, above
// all where the mark before was that of another holder.
func (d *DB) tell(r *reader, m *mark) {
	r.reads.Store(m)
	d.answer(r)
}

// answer wakes the sweeper if it waits for who holds a slot, or has just left it.
func (d *DB) answer(r *reader) {
	if r.awaited.Load() && r.awaited.CompareAndSwap(true, false) {
		d.background.sweeper.wake()
	}
}

// holdState returns the state of the manifest, all files of which stay until slot
// is released. It may be ahead of the view. Nothing else is kept for it, neither
// memtables nor versions of keys in later files: what is read is a set of files,
// which never change.
//
// While it is loaded, every file is kept that the view has or may come to have.
// Then it is known that its files have numbers which had been given by then.
func (d *DB) holdState() (slot *readerSlot, state manifest.State, err error) {
	if slot, err = d.acquireAt(d.readers.NoSnapshot()); err != nil {
		return nil, state, err
	}
	turn := d.view.Load().mark.turn
	if !mutant.On(mutant.UntoldState) {
		slot.Data.reads.Store(&mark{turn: turn, files: everyFile, filesOnly: true})
	}
	state = d.manifest.State()
	d.at(pointStated)
	d.tell(&slot.Data, &mark{turn: turn, files: base.FileNum(d.nextFile.Load()), filesOnly: true})
	return slot, state, nil
}
