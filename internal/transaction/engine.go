// Package transaction holds open transactions: what they read and write, their
// iterators, and their end. Package stoat gives them to callers as Txn, Iterator, Item,
// TimedTxn and TimedIterator, and documents their methods.
//
// A transaction reads the view that its slot holds. It collects its writes, and hands
// them to the committer as one request.
package transaction

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/gaps"
	"github.com/stoatdb/stoat/internal/histogram"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/work"
)

// An Engine has what transactions use of a database. The fields up to NoGaps are set before
// the first transaction and do not change.
type Engine struct {
	Store        *state.Store
	Commits      *commit.Committer
	Space        *space.Reserve
	Group        *work.Group
	Compact      func() // wakes the compactor
	Streams      *place.Streams
	Settings     *settings.Table
	Functions    *partial.Functions
	HashSeed     uint64
	MemtableSize int64
	Durability   Durability // of commits that name none
	// NoGaps keeps iterators from remembering ranges without live keys. In a database that
	// follows a writer, versions may be used again: a gap would hide their entries. And a
	// compaction filter removes values that older views still show.
	NoGaps bool

	// CommitTime has the durations of commits.
	CommitTime histogram.Histogram

	// hot is the number of updates that are still to begin early, because others met
	// conflicts. It is not much below 0.
	hot       atomic.Int64
	iterators sync.Pool // of *core, for later iterators
	manys     sync.Pool // of *many
	snapshots openSnapshots
	gaps      gaps.Index
}

// View begins a read-only transaction. The caller ends it with EndView, on the same
// goroutine.
func (e *Engine) View() (Txn, *state.Slot, error) {
	slot, err := e.acquire(false)
	if err != nil {
		return Txn{}, nil, err
	}
	own, _ := slot.Data.Attached.(*State) // successive Views with this slot reuse it
	if own == nil {
		own = &State{engine: e, shared: true}
		slot.Data.Attached = own
	}
	return own.begin(slot), slot, nil
}

// EndView ends the transaction of a View, and then releases its slot.
func (tx Txn) EndView(slot *state.Slot) {
	e := tx.s.engine
	if !tx.end() {
		// A goroutine that outlived the View may still use the state.
		slot.Data.Attached = nil
	}
	e.Store.Release(slot)
}

// Begin begins a transaction that the caller ends with Commit or Discard.
func (e *Engine) Begin(ctx context.Context, write bool) (Txn, error) {
	slot, err := e.acquire(write)
	if err != nil {
		return Txn{}, err
	}
	return e.BeginAt(ctx, slot, write), nil
}

// acquire takes a slot for a transaction that reads what is visible.
func (e *Engine) acquire(write bool) (*state.Slot, error) {
	if !write && mutant.On(mutant.EarlyRead) {
		return e.Store.AcquireApplied()
	}
	return e.Store.Acquire()
}

// BeginAt is Begin with a slot that the caller has acquired.
func (e *Engine) BeginAt(ctx context.Context, slot *state.Slot, write bool) Txn {
	s := &State{engine: e, slot: slot}
	if ctx.Done() != nil {
		s.ctx = ctx
	}
	if write {
		s.writes = e.Commits.NewWriteSet()
	}
	return s.begin(slot)
}
