package stoat

import (
	"context"
	"io"
	"sync"

	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/checkpoint"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/governor"
	"github.com/stoatdb/stoat/internal/histogram"
	"github.com/stoatdb/stoat/internal/jobs"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/manual"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/quarantine"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
)

// DB is an open database. Any goroutine may call its methods. Where they take a
// context, nil is one that is never done.
//
// A DB holds the parts of the engine and connects them; docs/architecture.md
// describes the parts. All fields are immutable after Open, except for the
// iterators and closing, which lock themselves.
type DB struct {
	opts     Options
	dir      string
	hashSeed uint64
	lock     io.Closer // the lock of the directory
	manifest *manifest.Store
	decoded  *cache.Cache // blocks of compressed tables
	unmapped tree.Options // for reading tables past the mappings

	exec     *work.Executor
	group    *work.Group
	activity work.Activity
	events   eventQueue

	store       *state.Store
	space       *space.Reserve
	throttle    *throttle.Throttle
	streams     *place.Streams
	commits     *commit.Committer
	quarantine  quarantine.Quarantine
	jobs        *jobs.Jobs
	collector   *collect.Collector
	manual      manual.Engine
	checkpoints *checkpoint.Maker
	governor    *governor.Governor

	flusher, compactor, collectorWorker, sweeper, governorWorker *work.Worker

	commitTime histogram.Histogram // of Commit and Update
	iterators  sync.Pool           // of *iteratorCore

	closing struct {
		once sync.Once
		err  error
	}
}

// View runs fn in a read-only transaction: a snapshot of everything committed
// before it began. It returns what fn returns. The transaction, its iterators
// and the bytes it lent end with fn and must not be used after it.
//
// A transaction or an iterator used after its View has ended answers ErrTxnDone,
// and so does an Item.
//
// A read-only transaction may be used by several goroutines at once, as long
// as they end before fn returns.
func (d *DB) View(fn func(tx *Txn) error) error {
	slot, err := d.store.Acquire()
	if err != nil {
		return err
	}
	own, _ := slot.Data.Attached.(*txnState) // what Views that hold the slot use one after the other
	if own == nil {
		own = new(txnState)
		slot.Data.Attached = own
	}
	tx := &Txn{state: own}
	tx.begin(d, slot)
	defer d.endView(tx, slot)
	return guardRead(tx, fn)
}

// endView ends the transaction of a View, and then releases its slot.
func (d *DB) endView(tx *Txn, slot *state.Slot) {
	if !tx.end() {
		// A goroutine that fn should have waited for may still use the state.
		slot.Data.Attached = nil
	}
	d.store.Release(slot)
}

// ViewContext is View with a context: once ctx is done, the transaction's
// methods return its error.
func (d *DB) ViewContext(ctx context.Context, fn func(tx *Txn) error) error {
	tx, err := d.BeginContext(ctx, ReadOnly)
	if err != nil {
		return err
	}
	defer tx.Discard()
	return guardRead(tx, fn)
}

// Update runs fn in a read-write transaction and commits it if fn returns
// nil; otherwise nothing is written and the error of fn is returned. When the
// commit meets a conflict, ErrConflict is returned and the caller may run the
// update again.
func (d *DB) Update(fn func(tx *Txn) error, opts ...CommitOption) error {
	return d.UpdateContext(context.Background(), fn, opts...)
}

// UpdateContext is Update with a context: once ctx is done, the transaction's
// methods return its error, and so does a commit that has not begun to be
// written.
func (d *DB) UpdateContext(ctx context.Context, fn func(tx *Txn) error, opts ...CommitOption) error {
	tx, err := d.BeginContext(ctx, ReadWrite)
	if err != nil {
		return err
	}
	defer tx.Discard()
	if err := guardRead(tx, fn); err != nil {
		return err
	}
	return tx.Commit(opts...)
}

// Mode says what a transaction may do.
type Mode uint8

const (
	// ReadOnly transactions read a snapshot and cost writers nothing.
	ReadOnly Mode = iota + 1
	// ReadWrite transactions also write, and what they read is validated
	// when they commit.
	ReadWrite
)

// Begin starts a transaction, which the caller must end with Commit or
// Discard. A read-only one may be used by several goroutines at once, a
// read-write one by one at a time.
//
// Bytes that it lends may lie in mapped files. A device that is lost makes a look
// at them a fault, of which View and Update make an error. Here that is so for
// all methods of the transaction, also for those that copy, but not for the
// caller's own look: who has to live on without the device copies.
func (d *DB) Begin(mode Mode) (*Txn, error) {
	return d.BeginContext(context.Background(), mode)
}

// BeginContext is Begin with a context: once ctx is done, the transaction's
// methods return its error.
func (d *DB) BeginContext(ctx context.Context, mode Mode) (*Txn, error) {
	if mode != ReadOnly && mode != ReadWrite {
		return nil, invalid("transaction mode is %d, want ReadOnly or ReadWrite", mode)
	}
	if mode == ReadWrite && d.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	ctx = work.Given(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slot, err := d.store.Acquire()
	if err != nil {
		return nil, err
	}
	tx := newTxn()
	tx.state.slot = slot
	tx.begin(d, slot)
	if ctx.Done() != nil {
		tx.state.ctx = ctx
	}
	if mode == ReadWrite {
		tx.state.writes = d.commits.NewWriteSet()
	}
	return tx, nil
}

// Sync returns nil when everything committed before the call is on the
// device, buffered commits included.
//
// A read-only database cannot see to that. When its writer did not live to close
// it, the last commits may be in the memory of the system alone: Sync is
// ErrReadOnly then.
func (d *DB) Sync() error { return d.SyncContext(context.Background()) }

// SyncContext is Sync with a context: once ctx is done it returns its error, unless
// what it waits for is being written already.
func (d *DB) SyncContext(ctx context.Context) error {
	ctx = work.Given(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.opts.ReadOnly && !d.store.Closed() {
		if d.commits.Recovered().Unproven() {
			return errUnproven
		}
		return nil
	}
	return d.commits.Submit(ctx, commit.SyncRequest())
}

// Close ends the database: it refuses new transactions, waits for commits
// that are under way, and makes everything committed durable. Transactions
// that are still open get ErrClosed from their next operation; bytes they
// borrowed stay valid until they are discarded.
func (d *DB) Close() error {
	d.closing.once.Do(func() { d.closing.err = d.close() })
	return d.closing.err
}

func (d *DB) close() error {
	d.group.Refuse()
	d.store.Closing()
	d.commits.Drain()
	d.group.End()
	err := d.commits.Failed()
	if !d.opts.ReadOnly {
		err = d.persist(err)
		d.store.Sweep() // later, nothing is deleted any more
	}
	if e := d.manifest.Close(); err == nil {
		err = e
	}
	if e := d.lock.Close(); err == nil {
		err = e
	}
	d.store.Shut()
	d.events.end()
	return err
}

// persist leaves the disk so that the next Open has little to do. failed is what
// ended the commits before, or nil; it comes before an error of persist's own.
func (d *DB) persist(failed error) error {
	if failed == nil {
		d.jobs.FinalFlush()
		failed = d.commits.Failed()
	}
	if err := d.commits.CloseLog(failed == nil); failed == nil {
		failed = err
	}
	return failed
}
