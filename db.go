package stoat

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/txn"
	"github.com/stoatdb/stoat/vfs"
)

// DB is an open database. All its methods may be called from any goroutine. Where
// they take a context, nil is one that is never done.
type DB struct {
	opts     Options // immutable after Open
	dir      string
	fs       vfs.FS
	lock     io.Closer // the lock of the directory
	hashSeed uint64

	clock clock

	// What readers touch: the newest visible sequence number, the structures
	// that hold everything up to it, and who reads.
	visible atomic.Uint64
	view    atomic.Pointer[view]
	readers *txn.Registry[reader]
	closed  atomic.Bool

	commits   committer
	admission admission
	room      diskRoom
	// log is nil until startLog makes it of what recovery found.
	log       atomic.Pointer[log.Writer]
	recovered log.Recovered

	// What is on the disk beside the log, and the work that keeps it in shape.
	manifest   *manifest.Store
	tables     *tree.Files
	decoded    *cache.Cache // blocks of tables that are compressed
	nextFile   atomic.Uint64
	background background
	driver     driver // in place of the goroutines behind, or nil; set before Open begins
	governor   governor
	garbage    garbage
	inVain     movedInVain
	measuring  measuring
	damaged    damagedTables
	apart      apart
	bad        badValues
	horizon    expiryHorizon
	work       workCounts
	events     eventQueue
	compacting turn // a choice of a compaction, and its job
	collecting turn // a choice of a collection, and its job

	publications publications // since when snapshots are out of date

	checkpointing turn
	installing    sync.Mutex // an edit of the manifest, and the view that follows it
	changing      sync.Mutex // the view

	memory    tableMemory
	writes    sync.Pool // of *writeSet
	iterators sync.Pool // of *iteratorCore

	closing struct {
		once sync.Once
		err  error
	}
	reaping struct {
		sync.Mutex
		due  bool // Close has no more use for it
		done bool // the memory has been given back
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
	slot, err := d.acquire()
	if err != nil {
		return err
	}
	if slot.Data.state == nil {
		slot.Data.state = new(txnState)
	}
	tx := &Txn{state: slot.Data.state}
	tx.begin(d, slot)
	defer d.endView(tx, slot)
	return guardRead(tx, fn)
}

// endView ends the transaction of a View, and then releases its slot.
func (d *DB) endView(tx *Txn, slot *readerSlot) {
	if !tx.end() {
		// A goroutine that fn should have waited for may still use the state.
		slot.Data.state = nil
	}
	d.release(slot)
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
	ctx = given(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slot, err := d.acquire()
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
		tx.state.writes = d.newWriteSet()
	}
	return tx, nil
}

// acquire takes a snapshot for a new transaction.
func (d *DB) acquire() (*readerSlot, error) { return d.acquireAt(&d.visible) }

// acquireAt takes a slot for a reader of what visible covers.
func (d *DB) acquireAt(visible *atomic.Uint64) (*readerSlot, error) {
	if d.closed.Load() {
		return nil, ErrClosed
	}
	slot := d.readers.Acquire(visible)
	if d.closed.Load() {
		d.release(slot)
		return nil, ErrClosed
	}
	return slot, nil
}

// release ends a snapshot. The last one after Close gives the memory back;
// before that there may be garbage that this one keeps.
func (d *DB) release(slot *readerSlot) {
	slot.Release()
	d.answer(&slot.Data) // whoever has the slot by now may be meant: the sweeper looks again
	if d.closed.Load() {
		d.reap()
	}
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
	ctx = given(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.opts.ReadOnly && !d.closed.Load() {
		if d.recovered.Unproven() {
			return errUnproven
		}
		return nil
	}
	return d.commits.submit(ctx, &request{sync: true, ready: make(chan signal, 1)})
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
	d.closed.Store(true)
	d.commits.drain()
	d.background.end()
	err := d.commits.poisoned()
	if !d.opts.ReadOnly {
		err = d.persist(err)
		d.sweep() // later, nothing is deleted any more
	}
	if e := d.manifest.Close(); err == nil {
		err = e
	}
	if e := d.lock.Close(); err == nil {
		err = e
	}
	d.reaping.Lock()
	d.reaping.due = true
	d.reaping.Unlock()
	d.reap()
	d.events.end()
	return err
}

// persist leaves the disk as the next Open likes it. failed is what ended the
// commits before, or nil; an error of its own comes second to that.
func (d *DB) persist(failed error) error {
	if failed == nil {
		d.finalFlush()
		failed = d.commits.poisoned()
	}
	if err := d.sealLog(failed == nil); failed == nil {
		failed = err
	}
	return failed
}

// sealLog closes the log and, after an orderly end, records in the manifest
// where it ended, so that nothing can go missing from it unnoticed, and the
// time.
func (d *DB) sealLog(orderly bool) error {
	var edit manifest.Edit
	d.clock.stop()
	if l := d.log.Load(); l != nil {
		if err := l.Close(); err != nil || !orderly {
			return err
		}
		d.restLog(l)
		spans := slices.Clone(d.manifest.State().Spans)
		// What was flushed is not needed any more.
		last := &spans[len(spans)-1]
		first := last.First
		*last = l.Span()
		last.First = first
		edit.Spans = manifest.Some(spans)
	}
	if !edit.Spans.Set && !(orderly && d.clock.unsaved()) {
		return nil
	}
	return d.record(edit)
}

// reap gives memory and files back once no transaction can touch them.
func (d *DB) reap() {
	d.reaping.Lock()
	defer d.reaping.Unlock()
	if d.reaping.done || !d.reaping.due || d.commits.busy() || d.readers.Active() > 0 {
		return
	}
	d.reaping.done = true
	d.sweep()
	for _, t := range d.view.Load().tables {
		t.Release()
	}
	d.memory.close()
	if err := d.tables.Close(); err != nil {
		d.emit(Warning{What: "a table could not be closed", Err: err})
	}
	d.decoded.Close()
}

// nowMs is the time by which expiry is judged: it never goes back.
func (d *DB) nowMs() uint64 { return d.clock.now(d.opts.Clock) }

// lastVersion is the newest version that readers see.
func (d *DB) lastVersion() base.SeqNum { return base.SeqNum(d.visible.Load()) }
