package transaction

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/state"
)

// A Snapshot is stoat.Snapshot. It holds a slot, which its Views share.
type Snapshot struct {
	engine *Engine
	slot   *state.Slot
	view   *state.View
	seq    base.SeqNum
	now    uint64 // by which its Views judge expiry; see Txn.NowMs
	since  time.Time
	limit  *time.Timer // ends it; nil if its age has no limit

	expired atomic.Bool

	mu lock.Mutex[lock.Snapshot]
	// Guarded by mu: the Views that run, and why no other one may begin.
	views int
	err   error
}

// openSnapshots are the snapshots that hold a slot.
type openSnapshots struct {
	mu  lock.Mutex[lock.Snapshot]
	all map[*Snapshot]struct{} // guarded by mu
}

// Snapshot returns a snapshot of everything visible. Unless maxAge is 0, reads of the
// snapshot end after maxAge.
func (e *Engine) Snapshot(maxAge time.Duration) (*Snapshot, error) {
	slot, err := e.Store.Acquire()
	if err != nil {
		return nil, err
	}
	view, seq := e.Store.BeginSnapshot(slot)
	s := &Snapshot{engine: e, slot: slot, view: view, seq: seq, since: time.Now()}
	s.now = max(e.Store.Now(), 1) // after the slot was taken: see Store.Horizon
	e.snapshots.mu.Lock()
	if e.snapshots.all == nil {
		e.snapshots.all = map[*Snapshot]struct{}{}
	}
	e.snapshots.all[s] = struct{}{}
	e.snapshots.mu.Unlock()
	if maxAge > 0 {
		s.mu.Lock()
		s.limit = time.AfterFunc(maxAge, s.expire)
		s.mu.Unlock()
	}
	return s, nil
}

// OpenSnapshots returns how many snapshots hold something, and the age of the oldest.
func (e *Engine) OpenSnapshots() (n int, oldest time.Duration) {
	e.snapshots.mu.Lock()
	defer e.snapshots.mu.Unlock()
	for s := range e.snapshots.all {
		oldest = max(oldest, time.Since(s.since))
	}
	return len(e.snapshots.all), oldest
}

// Version is stoat.Snapshot.Version.
func (s *Snapshot) Version() uint64 { return uint64(s.seq) }

// Begin begins a read-only transaction at the snapshot. The caller ends it with Discard.
func (s *Snapshot) Begin(ctx context.Context) (Txn, error) {
	if s.engine.Store.Closed() {
		return Txn{}, base.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return Txn{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil && !(mutant.On(mutant.ExpiredBegins) && s.expired.Load()) {
		return Txn{}, s.err
	}
	s.views++
	t := &State{engine: s.engine, view: s.view, seq: s.seq, snapshot: s}
	t.now.Store(s.now)
	if ctx.Done() != nil {
		t.ctx = ctx
	}
	return Txn{s: t}, nil
}

// leave ends a transaction of Begin.
func (s *Snapshot) leave() {
	s.mu.Lock()
	s.views--
	free := s.views == 0 && s.err != nil && !(mutant.On(mutant.ExpiredHolds) && s.expired.Load())
	s.mu.Unlock()
	if free {
		s.release()
	}
}

// expire ends the snapshot because of its age.
func (s *Snapshot) expire() {
	if !mutant.On(mutant.ExpiredReadsOn) {
		s.expired.Store(true)
	}
	s.end(base.ErrSnapshotExpired)
}

// Close is stoat.Snapshot.Close.
func (s *Snapshot) Close() { s.end(base.ErrTxnDone) }

// end lets no more transaction begin. If none runs, it releases the snapshot; otherwise the
// last one does. Its first call counts.
func (s *Snapshot) end(err error) {
	s.mu.Lock()
	free := s.err == nil && s.views == 0
	if s.err == nil {
		s.err = err
	}
	if s.limit != nil {
		s.limit.Stop()
	}
	s.mu.Unlock()
	if free {
		s.release()
	}
}

// release gives the slot back.
func (s *Snapshot) release() {
	open := &s.engine.snapshots
	open.mu.Lock()
	delete(open.all, s)
	open.mu.Unlock()
	s.engine.Store.Release(s.slot)
}

// limited reports whether something other than the end of the database can end the reads
// of the transaction before its own end.
func (s *State) limited() bool { return s.ctx != nil || s.snapshot != nil && s.snapshot.limit != nil }
