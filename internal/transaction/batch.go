package transaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/mutant"
)

// BatchOptions are stoat.BatchOptions, with a Size that is in range.
type BatchOptions struct {
	Size   int64
	Pieces bool
}

// WriteOverhead is what a write adds to the size of a batch beside the bytes of its key
// and value.
const WriteOverhead = 32

// rangeOverhead is about what a range deletion takes in memory, in bytes, beside its bounds.
const rangeOverhead = 700

// errPieceFull says that the piece cannot take the write, and the next one can. It never
// leaves this package.
var errPieceFull = errors.New("stoat: the piece of the batch is full")

// errUnfinished says that the commit of a piece panicked, or ended its goroutine, so that it has
// no outcome.
var errUnfinished = errors.New("stoat: the commit of a piece of the batch did not return")

// A Batch is stoat.Batch, in one keyspace.
type Batch struct {
	b  *batch
	in *Keyspace
}

// A batch collects a piece, which is a transaction that reads nothing. At most one earlier
// piece is on its way through the pipeline. So a piece that fails has no successor, and the
// memory is bounded.
type batch struct {
	engine *Engine
	ctx    context.Context
	o      BatchOptions

	mu lock.Mutex[lock.Batch]
	// Guarded by mu.
	err     error        // what ended the batch; later calls return it
	piece   Txn          // takes the next writes if size is not 0
	size    int64        // of piece
	timed   bool         // the slot of piece keeps its time
	since   base.FileNum // the next file when a piece kept its time, 0 if none did
	flying  chan outcome // of the piece under way; nil if there is none
	version base.SeqNum  // of the newest piece that was committed
}

// An outcome is that of a piece.
type outcome struct {
	version uint64
	err     error
}

// NewBatch returns an empty batch. If err is not nil, the batch has ended with it.
func (e *Engine) NewBatch(ctx context.Context, o BatchOptions, err error) Batch {
	return Batch{b: &batch{engine: e, ctx: ctx, o: o, err: err}}
}

// In is stoat.Batch.In.
func (b Batch) In(ks *Keyspace) Batch {
	b.in = ks
	return b
}

// Set is stoat.Batch.Set.
func (b Batch) Set(key, value []byte, o Metadata) error {
	return b.write(len(key)+len(value), func(tx Txn) error { return tx.Set(key, value, o) })
}

// Delete is stoat.Batch.Delete.
func (b Batch) Delete(key []byte) error {
	return b.write(len(key), func(tx Txn) error { return tx.Delete(key) })
}

// DeleteRange is stoat.Batch.DeleteRange.
func (b Batch) DeleteRange(lo, hi []byte) error {
	return b.write(len(lo)+len(hi)+rangeOverhead, func(tx Txn) error { return tx.DeleteRange(lo, hi) })
}

// Merge is stoat.Batch.Merge.
func (b Batch) Merge(key, operand []byte) error {
	return b.write(len(key)+len(operand), func(tx Txn) error {
		if err := b.b.keepTime(); err != nil {
			return err
		}
		return tx.Merge(key, operand)
	})
}

// Renew is stoat.Batch.Renew.
func (b Batch) Renew(key []byte, expiry Metadata) error {
	return b.write(len(key), func(tx Txn) error {
		if err := b.b.keepTime(); err != nil {
			return err
		}
		return tx.Renew(key, expiry)
	})
}

// A TimedBatch is stoat.TimedBatch.
type TimedBatch struct {
	b  Batch
	at uint64
}

// At is stoat.Batch.At.
func (b Batch) At(timestamp uint64) TimedBatch { return TimedBatch{b, timestamp} }

// Set is stoat.TimedBatch.Set.
func (t TimedBatch) Set(key, value []byte, o Metadata) error {
	return t.b.write(len(key)+len(value), func(tx Txn) error { return tx.At(t.at).Set(key, value, o) })
}

// Delete is stoat.TimedBatch.Delete.
func (t TimedBatch) Delete(key []byte) error {
	return t.b.write(len(key), func(tx Txn) error { return tx.At(t.at).Delete(key) })
}

// PurgeRange is stoat.TimedBatch.PurgeRange.
func (t TimedBatch) PurgeRange(lo, hi []byte) error {
	return t.b.write(len(lo)+len(hi)+rangeOverhead, func(tx Txn) error { return tx.At(t.at).PurgeRange(lo, hi) })
}

// write calls do with the piece that takes a write with that many bytes of key and value.
func (b Batch) write(bytes int, do func(Txn) error) error {
	c := b.b
	if c == nil {
		return base.ErrTxnDone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.land()
	if c.err != nil {
		return c.err
	}
	size := int64(bytes) + WriteOverhead
	if err := c.makeRoom(size); err != nil {
		return c.end(err)
	}
	err := do(c.piece.In(b.in))
	if err == errPieceFull && c.o.Pieces {
		if err = c.launch(); err == nil {
			err = c.beginPiece()
		}
		if err == nil {
			err = do(c.piece.In(b.in))
		}
	}
	if err == errPieceFull {
		err = fmt.Errorf("%w: too many operands for the key", base.ErrBatchTooLarge)
	}
	if err != nil {
		return c.end(err)
	}
	c.size += size
	return nil
}

// makeRoom begins a piece if the batch has none that can take a write of a size. A piece
// takes one write of any size. The caller holds mu, as for all methods below.
func (c *batch) makeRoom(size int64) error {
	if c.size+size > c.o.Size {
		if !c.o.Pieces {
			return fmt.Errorf("%w: %d bytes, of at most %d", base.ErrBatchTooLarge, c.size+size, c.o.Size)
		}
		if c.size > 0 {
			if err := c.launch(); err != nil {
				return err
			}
		}
	}
	if mutant.On(mutant.BatchTornPiece) && c.o.Pieces && c.size > c.o.Size/2 {
		if err := c.launch(); err != nil {
			return err
		}
	}
	if c.size > 0 {
		return nil
	}
	return c.beginPiece()
}

// beginPiece begins a transaction without a snapshot: it keeps no version of a key and
// no file while it waits for more writes.
func (c *batch) beginPiece() error {
	slot, err := c.engine.Store.Attend()
	if err != nil {
		return err
	}
	s := &State{engine: c.engine, slot: slot, seq: base.SeqNumMax, writes: c.engine.Commits.NewWriteSet(), blind: true}
	if c.ctx.Done() != nil {
		s.ctx = c.ctx
	}
	c.piece, c.size, c.timed = Txn{s: s}, 0, false
	return nil
}

// keepTime makes the expiry horizon stay at or before the time of the piece, which its
// partial entries bear.
func (c *batch) keepTime() error {
	if c.timed {
		return nil
	}
	s := c.piece.s
	slot, err := c.engine.Store.AttendSnapshot()
	if err != nil {
		return err
	}
	c.engine.Store.Release(s.slot)
	s.slot, c.timed = slot, true
	if c.since == 0 {
		c.since = c.engine.Store.NextFile()
	}
	return nil
}

// launch hands the piece to the pipeline once the piece before it is committed. Pieces
// other than the last need not wait for the device: Commit makes all durable together.
func (c *batch) launch() error {
	if err := c.await(c.ctx); err != nil {
		return err
	}
	arrived, piece := make(chan outcome, 1), c.piece
	c.piece, c.size = Txn{}, 0
	c.err = errUnfinished // it stays after a panic of a file system or a context of the caller
	piece.CommitAsync(func(version uint64, err error) { arrived <- outcome{version, err} }, Buffered)
	c.flying, c.err = arrived, nil
	return nil
}

// await waits for the piece under way. When ctx is done before that, it returns the error
// of ctx.
func (c *batch) await(ctx context.Context) error {
	if c.flying == nil {
		return nil
	}
	select {
	case o := <-c.flying:
		return c.arrive(o)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// arrive notes the outcome of the piece that was under way.
func (c *batch) arrive(o outcome) error {
	c.flying = nil
	c.version = max(c.version, base.SeqNum(o.version))
	if mutant.On(mutant.BatchForgetsError) {
		return nil
	}
	return o.err
}

// land takes the outcome of the piece under way, if it has one.
func (c *batch) land() {
	if len(c.flying) == 0 {
		return
	}
	if err := c.arrive(<-c.flying); err != nil && c.err == nil {
		_ = c.end(err)
	}
}

// end ends the batch with an error, and returns it.
func (c *batch) end(err error) error {
	c.err = err
	c.piece.Discard()
	c.piece, c.size = Txn{}, 0
	if c.since != 0 && c.engine.Store.NextFile() != c.since {
		c.engine.Compact() // merges may have kept versions for a piece that kept its time
	}
	return err
}

// Commit is stoat.Batch.Commit.
func (b Batch) Commit(d Durability) error {
	c := b.b
	if c == nil {
		return base.ErrTxnDone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if err := c.commit(d); err != nil {
		return c.end(err)
	}
	_ = c.end(base.ErrTxnDone)
	return nil
}

func (c *batch) commit(d Durability) error {
	d, err := c.engine.durability(d)
	if err != nil {
		return err
	}
	if err := c.await(c.ctx); err != nil {
		return err
	}
	last := uint64(0)
	if c.size > 0 && !(mutant.On(mutant.BatchLosesLast) && c.version != 0) {
		if err := c.piece.Commit(d); err != nil {
			return err
		}
		last = c.piece.CommitVersion()
	}
	switch {
	case last != 0:
		c.version = base.SeqNum(last)
	case c.version != 0 && d == Synced && !mutant.On(mutant.BatchSkipsSync):
		return c.engine.Commits.Submit(c.ctx, commit.SyncRequest())
	case c.engine.Store.Closed():
		return base.ErrClosed
	default:
		return c.ctx.Err()
	}
	return nil
}

// Discard is stoat.Batch.Discard.
func (b Batch) Discard() {
	c := b.b
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.await(context.Background()) // its error is no matter any more
	if c.err == nil {
		_ = c.end(base.ErrTxnDone)
	}
}

// Version is stoat.Batch.CommitVersion.
func (b Batch) Version() uint64 {
	c := b.b
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.land()
	return uint64(c.version)
}
