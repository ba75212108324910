package transaction

import (
	"context"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/state"
)

// A Txn is stoat.Txn. It is a generation of a state, which later transactions may
// reuse.
type Txn struct {
	s   *State
	gen uint64    // the generation of s that this transaction is
	in  *Keyspace // nil is the default keyspace
}

// A State is the state of a transaction. A transaction of Begin has its own.
// Successive Views with one slot share the State of the slot, and each is a
// generation of it.
type State struct {
	// gen is the generation of the open transaction. The end of a transaction adds
	// genStep. The bit genLending says that the transaction has opened an iterator,
	// begun a loop, or lent a copy.
	gen atomic.Uint64

	engine *Engine
	shared bool // successive Views share the state
	blind  bool // a piece of a batch, which reads nothing
	ahead  bool // the snapshot may not be visible yet; see Update
	// snapshot is what the transaction of Snapshot.Begin reads. It stays after the end.
	snapshot *Snapshot
	view     *state.View   // nil between transactions
	seq      base.SeqNum   // of the snapshot
	now      atomic.Uint64 // milliseconds of Unix time, or 0; see NowMs

	slot      *state.Slot // released by end; nil in a View, which releases its slot itself
	ctx       context.Context
	writes    *commit.WriteSet // nil in a read-only transaction
	readErr   error            // the first read error of a read-write transaction
	lentOwn   bool             // the caller may have memory of writes
	commitSeq base.SeqNum
	decoded   codec.Arena // memory of decompressed values

	open openState
}

const (
	genLending = 1 // the lowest bit of State.gen
	genStep    = 2 // what the end of a transaction adds to State.gen
)

// An openState holds what the end of a transaction closes and empties. Its lock
// guards all fields.
type openState struct {
	lock.Mutex[lock.Transaction]
	iterators []Iterator
	lent      [][]byte // mangled at the end, with invariants only
	loops     int      // the number of running loops over All, Prefix and Range
	loopErr   error    // the first error of the loops, for Err
	// points are those of iterators that no read at a timestamp uses now.
	points []Iterator
}

// begin starts the next transaction of the state, with the snapshot of slot.
func (s *State) begin(slot *state.Slot) Txn {
	s.view, s.seq = s.engine.Store.BeginSnapshot(slot)
	if mutant.On(mutant.SnapshotOffByOne) {
		s.seq++
	}
	if mutant.On(mutant.StaleReadVersion) && s.seq > 0 {
		s.seq--
	}
	return Txn{s: s, gen: s.gen.Load()}
}

// Discard is stoat.Txn.Discard.
func (tx Txn) Discard() { tx.end() }

// end releases everything that the transaction holds, unless another call has done
// so or is about to. It reports whether the state is surely empty, so that another
// transaction may reuse it.
func (tx Txn) end() bool {
	ended, lending := tx.finish()
	if !ended {
		return false
	}
	s := tx.s
	if lending {
		s.closeAll()
	}
	empty := s.decoded.Reset()
	s.view, s.ctx, s.readErr = nil, nil, nil
	s.now.Store(0)
	if w := s.writes; w != nil {
		s.writes = nil
		s.engine.Commits.FreeWriteSet(w)
	}
	if slot := s.slot; slot != nil {
		s.slot = nil
		s.engine.Store.Release(slot)
	}
	if s.snapshot != nil {
		s.snapshot.leave()
	}
	return empty
}

// finish moves the state to its next generation, which ends the transaction for its
// callers. It reports false if the transaction had ended before. It also reports
// whether the transaction was lending.
func (tx Txn) finish() (finished, lending bool) {
	if tx.s == nil {
		return false, false
	}
	for {
		gen := tx.s.gen.Load()
		if gen&^genLending != tx.gen {
			return false, false
		}
		if tx.s.gen.CompareAndSwap(gen, tx.gen+genStep) {
			return true, gen&genLending != 0
		}
	}
}

// ended reports whether the transaction has ended. Its state may then belong to
// another transaction.
func (tx Txn) ended() bool { return tx.s == nil || tx.s.gen.Load()&^genLending != tx.gen }

// lockOpen locks tx.s.open and reports true. If the transaction has ended, it locks
// nothing and reports false. A goroutine that outlives the transaction may call it
// at any time: either the end waits for the unlock, or lockOpen reports false.
func (tx Txn) lockOpen() bool {
	if tx.s == nil {
		return false
	}
	open := &tx.s.open
	open.Lock()
	tx.s.gen.CompareAndSwap(tx.gen, tx.gen|genLending)
	if tx.ended() {
		open.Unlock()
		return false
	}
	return true
}

// closeAll closes the open iterators, mangles lent copies, and ends the loops.
func (s *State) closeAll() {
	open := &s.open
	open.Lock()
	iterators, lent := open.iterators, open.lent
	if len(iterators) > 0 {
		open.iterators = nil
	}
	points := open.points
	open.points = nil
	open.lent, open.loops, open.loopErr = nil, 0, nil
	open.Unlock()
	for _, it := range points {
		if stopped, _ := it.stop(); stopped {
			s.engine.iterators.Put(it.c)
		}
	}
	for _, it := range iterators {
		it.closeAtEnd(s)
	}
	for _, b := range lent {
		invariant.Mangle(b)
	}
}

// lend returns b, which the caller may read until the transaction ends. With
// invariants it returns a copy, which the end of the transaction mangles.
func (tx Txn) lend(b []byte) []byte {
	if !invariant.Enabled || b == nil {
		return b
	}
	c, err := copyBorrowed(make([]byte, 0, len(b)), b)
	if err != nil {
		return b // the caller's own read meets the fault
	}
	if tx.lockOpen() {
		defer tx.s.open.Unlock()
		tx.s.open.lent = append(tx.s.open.lent, c)
	}
	return c
}

// copyBorrowed appends borrowed bytes to dst. A fault in a mapped file is an error.
func copyBorrowed(dst, borrowed []byte) (all []byte, err error) {
	defer fault.Enter().Leave(&err)
	all = dst // the result after a fault
	return append(all, borrowed...), nil
}

// Check returns the error of operations of the transaction, or nil if they can go
// on.
func (tx Txn) Check() error {
	if tx.ended() {
		return base.ErrTxnDone
	}
	ctx := tx.s.ctx // the end of the transaction sets it to nil
	switch {
	case tx.s.engine.Store.Closed():
		return base.ErrClosed
	case tx.s.snapshot != nil && tx.s.snapshot.expired.Load():
		return base.ErrSnapshotExpired
	case ctx != nil:
		return ctx.Err()
	}
	return nil
}

// readable returns the error of reads of the transaction, or nil.
func (tx Txn) readable() error {
	if err := tx.Check(); err != nil {
		return err
	}
	if tx.in != nil {
		return tx.in.readable(tx)
	}
	return nil
}

// context returns the context of the transaction.
func (tx Txn) context() context.Context {
	if tx.s.ctx == nil {
		return context.Background()
	}
	return tx.s.ctx
}

// NowMs returns the time by which this transaction judges expiry, in milliseconds
// of Unix time. The first call sets it, and it stays the same until the end.
func (tx Txn) NowMs() uint64 {
	if now := tx.s.now.Load(); now != 0 {
		return now
	}
	tx.s.now.CompareAndSwap(0, max(tx.s.engine.Store.Now(), 1))
	return tx.s.now.Load()
}

// ReadVersion is stoat.Txn.ReadVersion.
func (tx Txn) ReadVersion() uint64 {
	if tx.s == nil || tx.s.shared && tx.ended() {
		return 0
	}
	return uint64(tx.s.seq)
}

// CommitVersion is stoat.Txn.CommitVersion.
func (tx Txn) CommitVersion() uint64 {
	if tx.s == nil {
		return 0
	}
	return uint64(tx.s.commitSeq)
}

// noteRead remembers the first read error of a read-write transaction, which Commit
// then returns. It returns err.
func (tx Txn) noteRead(err error) error {
	if s := tx.s; err != nil && s != nil && s.writes != nil && s.readErr == nil {
		s.readErr = err
	}
	return err
}

// Reads returns the view and the version that the transaction reads. They are valid until
// the transaction ends.
func (tx Txn) Reads() (view *state.View, at base.SeqNum) { return tx.s.view, tx.s.seq }
