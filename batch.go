package stoat

import (
	"context"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/transaction"
	"github.com/stoatdb/stoat/internal/work"
)

// BatchOptions tune a batch. The zero value of every field means its default.
type BatchOptions struct {
	// Size limits a batch, or each piece, in bytes. It counts keys, values and 32 bytes
	// per write, and 700 more per range deletion. Default: Options.MemtableSize, and an
	// eighth of it with Pieces. Range: 1 byte to 4 GiB.
	Size int64
	// Pieces lets the batch commit in pieces of up to Size. A write larger than that is
	// a piece of its own. Each piece is atomic. The pieces are committed in the order of
	// the writes, so a crash or an error leaves the first ones. Without Pieces, the batch
	// is atomic as a whole, and a write beyond Size fails with ErrBatchTooLarge.
	Pieces bool
}

// A Batch collects writes without reading anything, and commits them. It suits loads of
// data and other blind writes. It never conflicts. It holds no snapshot, unless it merges
// or renews.
//
// Any goroutine may write to a batch. The writes are applied in the order of the calls.
// The first error ends the batch, and every later call returns it. A batch that is not in
// pieces has then written nothing.
//
// The caller must end a batch with Commit or Discard. Until then it takes about Size bytes
// of memory, and with Pieces about twice as many.
//
// A Batch is a small value, and copies of it are the same batch.
type Batch struct{ b transaction.Batch }

// batchSizeMax is the upper bound of BatchOptions.Size in bytes.
const batchSizeMax = 4 << 30

// NewBatch returns an empty batch. If it cannot be used, all of its methods return the
// reason, such as ErrReadOnly.
func (d *DB) NewBatch(o BatchOptions) Batch { return d.NewBatchContext(context.Background(), o) }

// NewBatchContext is NewBatch with a context. Once ctx is done, the methods of the batch
// return the error of ctx. A piece whose write to the log has begun may still commit.
func (d *DB) NewBatchContext(ctx context.Context, o BatchOptions) Batch {
	var err error
	switch {
	case d.opts.ReadOnly:
		err = ErrReadOnly
	case o.Size < 0 || o.Size > batchSizeMax:
		err = base.Invalid("BatchOptions.Size is %d, want 0 to %d", o.Size, int64(batchSizeMax))
	case o.Size == 0 && o.Pieces:
		o.Size = d.opts.MemtableSize / 8 // see decision 0035
	case o.Size == 0:
		o.Size = d.opts.MemtableSize
	}
	return Batch{d.engine.Transactions.NewBatch(work.Given(ctx), transaction.BatchOptions(o), err)}
}

// Commit commits what the batch has collected, waits for all of its pieces, and ends the
// batch. If it returns nil, all writes are visible, and as durable as the options say.
//
// Without Pieces, an error means what it means for Txn.Commit. With Pieces, the pieces
// up to CommitVersion are committed. The next piece may be committed too.
func (b Batch) Commit(opts ...CommitOption) error { return b.b.Commit(durability(opts)) }

// Discard ends the batch, and drops what it has collected. Pieces that were committed
// stay. After Commit or another Discard it does nothing.
func (b Batch) Discard() { b.b.Discard() }

// CommitVersion returns the version of the newest piece that is known to be committed, or
// 0 if there is none.
func (b Batch) CommitVersion() uint64 { return b.b.Version() }

// In returns the same batch in the keyspace ks. Writes to the result are writes to ks, and
// Commit and Discard are of the one batch. A nil ks is the default keyspace.
func (b Batch) In(ks *Keyspace) Batch { return Batch{b.b.In(ks.inner())} }

// Set is Txn.Set.
func (b Batch) Set(key, value []byte, opts ...SetOption) error {
	return b.b.Set(key, value, metadata(opts))
}

// Delete is Txn.Delete.
func (b Batch) Delete(key []byte) error { return b.b.Delete(key) }

// DeleteRange is Txn.DeleteRange. It removes what the batch has set in the range before.
func (b Batch) DeleteRange(lo, hi []byte) error { return b.b.DeleteRange(lo, hi) }

// Merge is Txn.Merge, and never reads the key. A piece takes 64 operands of a key, or 128 KiB of
// them. With an OperandCombiner, it takes any number of operands, and 128 KiB of what Combine
// leaves. Beyond that, a batch with Pieces begins another piece. Without Pieces, Merge fails with
// ErrBatchTooLarge.
//
// If the same piece has set the key, Merge applies the operand at once. It then judges expiry by
// the time of the first Merge or Renew of the piece.
func (b Batch) Merge(key, operand []byte) error { return b.b.Merge(key, operand) }

// Renew is Txn.Renew. A value that the same piece has set is renewed at once, as Merge does.
func (b Batch) Renew(key []byte, expiry SetOption) error {
	return b.b.Renew(key, metadata([]SetOption{expiry}))
}

// A TimedBatch is a batch in a keyspace with timestamps, at one timestamp.
type TimedBatch struct{ b transaction.TimedBatch }

// At returns the batch at a timestamp. The keyspace of b must have timestamps; see Txn.At.
func (b Batch) At(timestamp uint64) TimedBatch { return TimedBatch{b.b.At(timestamp)} }

// Set is TimedTxn.Set.
func (t TimedBatch) Set(key, value []byte, opts ...SetOption) error {
	return t.b.Set(key, value, metadata(opts))
}

// Delete is TimedTxn.Delete.
func (t TimedBatch) Delete(key []byte) error { return t.b.Delete(key) }

// PurgeRange is TimedTxn.PurgeRange.
func (t TimedBatch) PurgeRange(lo, hi []byte) error { return t.b.PurgeRange(lo, hi) }
