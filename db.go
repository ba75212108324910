package stoat

import (
	"context"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/engine"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/transaction"
	"github.com/stoatdb/stoat/internal/work"
)

// DB is an open database. Any goroutine may call its methods. A nil context is a
// context that is never done.
type DB struct {
	// opts is immutable after Open. Its defaults are filled in.
	opts    Options
	engine  engine.Engine
	reports reporter
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
	tx, slot, err := d.engine.Transactions.View()
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
// error. fn must not end the transaction itself: what it commits stays.
//
// Update returns ErrConflict when the commit meets a conflict. The caller may then run
// the update again, or leave that to the option Retries. Without it, fn runs once.
func (d *DB) Update(fn func(tx Txn) error, opts ...CommitOption) error {
	return d.UpdateContext(context.Background(), fn, opts...)
}

// UpdateContext is Update with a context. Once ctx is done, the methods of the
// transaction return the error of ctx. So does a commit whose write has not begun.
func (d *DB) UpdateContext(ctx context.Context, fn func(tx Txn) error, opts ...CommitOption) error {
	switch n := retries(opts); {
	case n < 0:
		return base.Invalid("Retries(%d), want 0 or more", n)
	case n > 0 && !d.opts.ReadOnly:
		run := func(tx transaction.Txn) error { return guardRead(Txn{tx}, fn) }
		return d.engine.Transactions.Update(ctx, n, durability(opts), run)
	}
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

// guardRead runs fn in tx, and turns a fault in a mapped file into an error. View and
// Update guard the whole function of the caller, on the goroutine that runs it. Begin takes
// no function. So each method that reads mapped bytes also guards itself.
func guardRead(tx Txn, fn func(tx Txn) error) error {
	if fn == nil {
		return errNoFunction
	}
	return fault.Guard(func() error { return fn(tx) })
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
// error, also when fn itself reads the bytes, on its own goroutine. With Begin, only
// the methods of the transaction do. A caller whose own reads must survive the fault
// uses methods that copy, such as GetCopy.
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
	tx, err := d.engine.Transactions.Begin(ctx, mode == ReadWrite)
	return Txn{tx}, err
}

// Sync returns nil when everything committed before the call is on the device,
// buffered commits included.
//
// In a follower, these are the commits of the writer, which transactions of the follower
// then see. A follower does not know that a sync of the writer has failed. The system may
// then take lost pages for written: Sync returns nil, although a power cut takes commits back.
//
// Another read-only database cannot write to the device. If its last writer died before it
// closed the database, the last commits may be only in the memory of the system. Sync then
// returns ErrReadOnly.
func (d *DB) Sync() error { return d.SyncContext(context.Background()) }

// SyncContext is Sync with a context. Once ctx is done, it returns the error of
// ctx, unless the write that it waits for has begun.
func (d *DB) SyncContext(ctx context.Context) error {
	ctx = work.Given(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case !d.opts.ReadOnly:
		return d.engine.Commits.Submit(ctx, commit.SyncRequest())
	case d.engine.Store.Closed():
		return ErrClosed
	case d.engine.Follower != nil:
		return d.follow(ctx, "sync", d.engine.Follower.Sync)
	case d.engine.Manifest.Unproven() || d.engine.Commits.Recovered().Unproven():
		return errUnproven
	}
	return nil
}

// Close closes the database. It refuses new transactions, waits for commits under
// way, and makes everything committed durable.
//
// Operations of transactions that are still open return ErrClosed from then on. The
// bytes that such a transaction borrowed stay valid until the caller discards it.
//
// Close also ends running calls such as Compact, Check, Subscribe, Stream and Backup. It does
// not wait for the function of a Stream, or the writer of a Backup. It waits for callbacks of
// CommitAsync and Options.Events, so these must not call it. Later calls of Close return the
// same error.
func (d *DB) Close() error {
	d.closing.once.Do(func() {
		d.closing.err = d.engine.Close()
		d.reports.queue.End()
	})
	return d.closing.err
}
