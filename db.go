package stoat

import (
	"context"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/changes"
	"github.com/stoatdb/stoat/internal/checkpoint"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/follow"
	"github.com/stoatdb/stoat/internal/governor"
	"github.com/stoatdb/stoat/internal/ingest"
	"github.com/stoatdb/stoat/internal/jobs"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/manual"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/quarantine"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/spaces"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/transaction"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
)

// DB is an open database. Any goroutine may call its methods. A nil context is a
// context that is never done.
type DB struct {
	// A DB holds the parts of the engine and connects them; docs/architecture.md
	// describes the parts. All fields are immutable after Open, except
	// closing, which locks itself.

	opts     Options
	dir      string
	hashSeed uint64
	lock     io.Closer  // the lock of the directory
	keys     *seal.Keys // nil if the database is not encrypted
	manifest *manifest.Store
	settings settings.Table // of the keyspaces
	decoded  *cache.Cache   // decoded blocks of compressed tables
	unmapped tree.Options   // for jobs, which read files without mappings

	upgrade *UpgradeReport // of the Upgrade that opened the database, or nil

	exec     *work.Executor
	group    *work.Group
	activity work.Activity
	events   event.Queue[Event]

	store        *state.Store
	space        *space.Reserve
	throttle     *throttle.Throttle
	streams      *place.Streams
	commits      *commit.Committer
	transactions transaction.Engine
	changes      changes.Engine
	quarantine   quarantine.Quarantine
	jobs         *jobs.Jobs
	collector    *collect.Collector
	manual       manual.Engine
	ingests      ingest.Engine
	spaces       *spaces.Registry
	checkpoints  *checkpoint.Maker
	governor     *governor.Governor
	follower     *follow.Follower // nil unless OpenFollower opened the database

	flusher, compactor, collectorWorker, sweeper, governorWorker, dropper *work.Worker

	dropperStart sync.Once

	closing struct {
		once sync.Once
		err  error
	}
}

// View runs fn in a read-only transaction, and returns what fn returns. The
// transaction reads a snapshot of everything committed before View began.
//
// The transaction, its iterators and the bytes that they lent are valid until fn
// returns. A transaction, an iterator or an Item returns ErrTxnDone after that.
//
// Several goroutines may use the transaction at once, if they end before fn
// returns.
func (d *DB) View(fn func(tx Txn) error) error {
	tx, slot, err := d.transactions.View()
	if err != nil {
		return err
	}
	defer tx.EndView(slot)
	return guardRead(Txn{tx}, fn)
}

// ViewContext is View with a context. Once ctx is done, the methods of the
// transaction return the error of ctx.
func (d *DB) ViewContext(ctx context.Context, fn func(tx Txn) error) error {
	tx, err := d.BeginContext(ctx, ReadOnly)
	if err != nil {
		return err
	}
	defer tx.Discard()
	return guardRead(tx, fn)
}

// Update runs fn in a read-write transaction, and commits the transaction if fn
// returns nil. If fn returns an error, Update writes nothing and returns that
// error.
//
// Update returns ErrConflict when the commit meets a conflict. The caller may then run
// the update again, or leave that to the option Retries.
func (d *DB) Update(fn func(tx Txn) error, opts ...CommitOption) error {
	return d.UpdateContext(context.Background(), fn, opts...)
}

// UpdateContext is Update with a context. Once ctx is done, the methods of the
// transaction return the error of ctx. So does a commit whose write has not begun.
func (d *DB) UpdateContext(ctx context.Context, fn func(tx Txn) error, opts ...CommitOption) error {
	switch n := retries(opts); {
	case n < 0:
		return base.Invalid("Retries(%d), want 0 or more", n)
	case n > 0:
		attempt := func() error { return d.update(ctx, fn, opts) }
		return d.group.Retry(work.Given(ctx), n, rand.Uint64, attempt)
	}
	return d.update(ctx, fn, opts)
}

// update is UpdateContext without retries.
func (d *DB) update(ctx context.Context, fn func(tx Txn) error, opts []CommitOption) error {
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

// View and Update guard the whole function of the caller against faults in mapped
// files, on the goroutine that runs it; see package fault. Begin takes no function,
// and several goroutines may use a transaction. So each method that reads mapped
// bytes also guards itself.

// guardRead runs fn in tx, and turns a fault in a mapped file into an error.
func guardRead(tx Txn, fn func(tx Txn) error) (err error) {
	if fn == nil {
		return errNoFunction
	}
	was := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(was)
		if p := recover(); p != nil {
			err = fault.Of(p)
		}
	}()
	return fn(tx)
}

// Mode says what a transaction may do.
type Mode uint8

const (
	// ReadOnly transactions read a snapshot. They cost writers nothing.
	ReadOnly Mode = iota + 1
	// ReadWrite transactions read and write. Their commit validates what they read.
	ReadWrite
)

// Begin starts a transaction. The caller must end it with Commit or Discard.
// Several goroutines may use a read-only transaction at once. Only one goroutine at
// a time may use a read-write transaction.
//
// Bytes that the transaction lends may lie in mapped files. If the device is lost, a
// read of such bytes is a memory fault. View and Update turn that fault into an
// error, also when fn itself reads the bytes. With Begin, only the methods of the
// transaction do. A caller whose own reads must survive the fault uses methods that
// copy, such as GetCopy.
func (d *DB) Begin(mode Mode) (Txn, error) {
	return d.BeginContext(context.Background(), mode)
}

// BeginContext is Begin with a context. Once ctx is done, the methods of the
// transaction return the error of ctx.
func (d *DB) BeginContext(ctx context.Context, mode Mode) (Txn, error) {
	if mode != ReadOnly && mode != ReadWrite {
		return Txn{}, base.Invalid("transaction mode is %d, want ReadOnly or ReadWrite", mode)
	}
	if mode == ReadWrite && d.opts.ReadOnly {
		return Txn{}, ErrReadOnly
	}
	ctx = work.Given(ctx)
	if err := ctx.Err(); err != nil {
		return Txn{}, err
	}
	tx, err := d.transactions.Begin(ctx, mode == ReadWrite)
	return Txn{tx}, err
}

// Sync returns nil when everything committed before the call is on the device,
// buffered commits included.
//
// A read-only database cannot write to the device. If its last writer died before
// it closed the database, the last commits may be only in the memory of the system.
// Sync then returns ErrReadOnly.
func (d *DB) Sync() error { return d.SyncContext(context.Background()) }

// SyncContext is Sync with a context. Once ctx is done, it returns the error of
// ctx, unless the write that it waits for has begun.
func (d *DB) SyncContext(ctx context.Context) error {
	ctx = work.Given(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.opts.ReadOnly && !d.store.Closed() {
		if d.follower != nil {
			return ErrReadOnly
		}
		if d.commits.Recovered().Unproven() {
			return errUnproven
		}
		return nil
	}
	return d.commits.Submit(ctx, commit.SyncRequest())
}

// Close closes the database. It refuses new transactions, waits for commits under
// way, and makes everything committed durable.
//
// Operations of transactions that are still open return ErrClosed from then on. The
// bytes that such a transaction borrowed stay valid until the caller discards it.
func (d *DB) Close() error {
	d.closing.once.Do(func() { d.closing.err = d.close() })
	return d.closing.err
}

func (d *DB) close() error {
	d.group.Refuse()
	d.store.Closing()
	d.commits.Drain()
	d.group.End()
	if d.follower != nil {
		d.follower.Close()
	}
	err := d.commits.Failed()
	if !d.opts.ReadOnly {
		err = d.persist(err)
		d.store.Sweep() // the last deletion of obsolete files
	}
	if e := d.manifest.Close(); err == nil {
		err = e
	}
	if e := d.lock.Close(); err == nil {
		err = e
	}
	d.store.Shut()
	d.events.End()
	return err
}

// persist leaves the disk so that the next Open has little to do. failed is the
// error that ended the commits before, or nil. It takes precedence over an error of
// persist itself.
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
