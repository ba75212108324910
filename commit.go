package stoat

import (
	"time"

	"github.com/stoatdb/stoat/internal/commit"
)

// A CommitOption changes one commit.
type CommitOption struct {
	durability Durability
}

// WithDurability makes a commit wait for d instead of what the database's
// options say; 0 is what they say. A commit with what is no Durability fails with
// ErrInvalid and writes nothing.
func WithDurability(d Durability) CommitOption { return CommitOption{d} }

// Commit validates what the transaction read and makes its writes durable and
// visible, all or none, and ends it. ErrConflict means that nothing was
// written because another transaction changed what this one had read. A
// transaction without writes has nothing to do and never conflicts.
//
// After any other error nothing was written either, except after ErrFailed: then
// the transaction may be there, as a whole, when the database is opened again.
func (tx *Txn) Commit(opts ...CommitOption) error {
	if tx.ended() {
		return ErrTxnDone
	}
	defer tx.end()
	r, err := tx.request(opts)
	if r == nil || err != nil {
		return err
	}
	tx.state.closeAll() // iterators tell what they have read, which the pipeline may replace
	r.TakeSlot(&tx.state.slot)
	w := tx.state.writes
	w.Commits++
	measured, started := r.Sync() || w.Commits%sampleBuffered == 0, time.Time{}
	if measured {
		started = time.Now()
	}
	if err := tx.db.commits.Submit(tx.context(), r); err != nil {
		return err
	}
	if measured {
		tx.db.committed(time.Since(started), r.Sync())
	}
	tx.state.commitSeq = r.Seq()
	return nil
}

// CommitAsync is Commit without the wait for others and for the device: it ends
// the transaction for the caller and calls done, which may be nil, exactly once
// with what Commit would have returned, possibly before CommitAsync returns, and
// never on the caller's goroutine: who holds a lock that done takes as well does
// not wait for himself. done should be brief, and must not close the database,
// which waits for it. CommitVersion goes on to return 0.
//
// Before it returns, CommitAsync looks for conflicts, which may read files. Values
// of Options.LargeValueThreshold or more that make two megabytes together it writes to
// a file, and makes that durable. It waits while 64 MiB of other commits wait, for
// a second at most while the disk is nearly full, and as long as Commit does before
// it writes such values. A context of the transaction ends this with its error, and
// has no part in what comes after.
func (tx *Txn) CommitAsync(done func(error), opts ...CommitOption) {
	if done == nil {
		done = func(error) {}
	}
	if tx.ended() {
		tx.db.commits.Tell(done, ErrTxnDone)
		return
	}
	r, err := tx.request(opts)
	if r == nil || err != nil {
		tx.end()
		tx.db.commits.Tell(done, err)
		return
	}
	// The request goes on as a transaction of its own, so that this one is
	// ended for its holder whatever the pipeline is doing.
	s := tx.state
	s.closeAll()
	s.decoded.Reset()
	r.TakeSlot(&s.slot)
	ctx := tx.context()
	own := newTxn()
	own.db, own.view, own.seq = tx.db, tx.view, tx.seq
	own.state.slot, own.state.writes = s.slot, s.writes
	tx.status.Store(txnEnded)
	tx.view, s.slot, s.ctx, s.writes = nil, nil, nil, nil
	tx.db.commits.SubmitAsync(ctx, r, func(err error) {
		own.end()
		done(err)
	})
}

// request prepares the commit, or returns nil when there is nothing to write.
func (tx *Txn) request(opts []CommitOption) (*commit.Request, error) {
	if err := tx.check(); err != nil {
		return nil, err
	}
	durability := tx.db.opts.Durability
	for _, o := range opts {
		switch o.durability {
		case 0: // as the database
		case Synced, Buffered:
			durability = o.durability
		default:
			return nil, invalid("WithDurability(%d), want Synced or Buffered", o.durability)
		}
	}
	w := tx.state.writes
	if w == nil || w.Pending.Len() == 0 {
		return nil, nil
	}
	if w.Pending.HasDeletions() {
		w.Pending.LiveLen() // what they kill is found here, not under the locks of the pipeline
	}
	return w.Request(tx.seq, durability != Buffered), nil
}
