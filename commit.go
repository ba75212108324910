package stoat

import (
	"time"

	"github.com/stoatdb/stoat/internal/commit"
)

// A CommitOption changes one commit.
type CommitOption struct {
	durability Durability
}

// WithDurability makes a commit wait for d instead of Options.Durability. A d of 0
// means Options.Durability. With any other unknown d, the commit writes nothing and
// returns ErrInvalid.
func WithDurability(d Durability) CommitOption { return CommitOption{d} }

// Commit ends the transaction. It validates what the transaction read, and makes
// all its writes durable and visible, or none. A transaction without writes needs
// no validation and never conflicts.
//
// ErrConflict means that another transaction changed something that this
// transaction read. Commit has then written nothing.
//
// If a read of the transaction failed, Commit returns the error of the first such
// read and writes nothing. So a loop that an error cut short decides nothing.
//
// After any other error Commit has written nothing either, except after ErrFailed.
// After ErrFailed, the next Open may find the whole transaction or nothing of it.
func (tx Txn) Commit(opts ...CommitOption) error {
	if tx.ended() {
		return ErrTxnDone
	}
	defer tx.end()
	r, err := tx.request(opts)
	if r == nil || err != nil {
		return err
	}
	r.TakeSlot(&tx.s.slot)
	w := tx.s.writes
	w.Commits++
	measured, started := r.Sync() || w.Commits%sampleBuffered == 0, time.Time{}
	if measured {
		started = time.Now()
	}
	if err := tx.s.db.commits.Submit(tx.context(), r); err != nil {
		return err
	}
	if measured {
		tx.s.db.committed(time.Since(started), r.Sync())
	}
	tx.s.commitSeq = r.Seq()
	return nil
}

// CommitAsync is Commit without the wait for other commits and for the device. It
// ends the transaction for the caller. It calls done, which may be nil, exactly
// once with the error that Commit would have returned. CommitVersion stays 0.
//
// The call of done may come before CommitAsync returns, and never on the caller's
// goroutine. So the caller may hold a lock that done takes. done should be brief.
// It must not close the database, because Close waits for done.
//
// Before it returns, CommitAsync looks for conflicts, which may read files. If the
// transaction has two megabytes of values of Options.LargeValueThreshold or more,
// CommitAsync writes these values to a file and makes the file durable.
//
// CommitAsync waits while 64 MiB of other commits wait. It waits for at most a
// second while the disk is nearly full. Before it writes large values, it waits as
// long as Commit does. A context of the transaction ends these waits with its
// error. Later, the context has no effect.
func (tx Txn) CommitAsync(done func(error), opts ...CommitOption) {
	if done == nil {
		done = func(error) {}
	}
	if tx.s == nil {
		go done(ErrTxnDone)
		return
	}
	if tx.ended() {
		tx.s.db.commits.Tell(done, ErrTxnDone)
		return
	}
	r, err := tx.request(opts)
	if r == nil || err != nil {
		tx.end()
		tx.s.db.commits.Tell(done, err)
		return
	}
	// The request continues as the next generation of the state. So the transaction
	// has ended for the caller, whatever the pipeline does.
	s := tx.s
	s.decoded.Reset()
	r.TakeSlot(&s.slot)
	ctx := tx.context()
	s.ctx = nil
	tx.finish()
	own := Txn{s: s, gen: tx.gen + genStep}
	s.db.commits.SubmitAsync(ctx, r, func(err error) {
		own.end()
		done(err)
	})
}

// request prepares the commit. It returns nil if there is nothing to write.
func (tx Txn) request(opts []CommitOption) (*commit.Request, error) {
	if err := tx.check(); err != nil {
		return nil, err
	}
	durability := tx.s.db.opts.Durability
	for _, o := range opts {
		switch o.durability {
		case 0: // the option of the database
		case Synced, Buffered:
			durability = o.durability
		default:
			return nil, invalid("WithDurability(%d), want Synced or Buffered", o.durability)
		}
	}
	w := tx.s.writes
	if w == nil {
		return nil, nil
	}
	// Closing the iterators records the ranges that they read, and their errors. They
	// read Pending, which the pipeline may replace.
	tx.s.closeAll()
	if tx.s.readErr != nil {
		return nil, tx.s.readErr
	}
	if w.Pending.Len() == 0 {
		return nil, nil
	}
	if w.Pending.HasDeletions() {
		w.Pending.LiveLen() // finds what the tombstones hide now, before the pipeline takes its locks
	}
	return w.Request(tx.s.seq, durability != Buffered), nil
}
