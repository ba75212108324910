package transaction

import (
	"cmp"
	"context"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
)

// Durability is stoat.Durability. The zero Durability is that of the database.
type Durability uint8

// The durabilities, as in package stoat.
const (
	Synced Durability = iota + 1
	Buffered
)

// sampleBuffered: one of sampleBuffered commits that do not wait for the device is
// measured. Reading the clock twice takes a tenth of the time of such a commit.
const sampleBuffered = 16

// Commit is stoat.Txn.Commit.
func (tx Txn) Commit(d Durability) error {
	if tx.ended() {
		return base.ErrTxnDone
	}
	defer tx.end()
	r, err := tx.request(d)
	if r != nil && err == nil {
		if err = tx.submit(r, tx.s.engine.Commits.Submit); err == nil {
			return nil
		}
	}
	return tx.settle(err)
}

// settle returns err, or why the database cannot tell it: a transaction that is ahead has
// read what may be lost.
func (tx Txn) settle(err error) error {
	if !tx.s.ahead {
		return err
	}
	return cmp.Or(tx.s.engine.Commits.AwaitVisible(tx.context(), tx.s.seq), err)
}

// submit takes the request of the transaction through the pipeline.
func (tx Txn) submit(r *commit.Request, through func(context.Context, *commit.Request) error) error {
	r.TakeSlot(&tx.s.slot)
	w := tx.s.writes
	w.Commits++
	measured, started := r.Sync() || w.Commits%sampleBuffered == 0, time.Time{}
	if measured {
		started = time.Now()
	}
	if err := through(tx.context(), r); err != nil {
		return err
	}
	if measured {
		of := uint64(sampleBuffered)
		if r.Sync() {
			of = 1
		}
		tx.s.engine.CommitTime.AddMany(time.Since(started), of)
	}
	tx.s.commitSeq = r.Seq()
	return nil
}

// CommitAsync is stoat.Txn.CommitAsync.
func (tx Txn) CommitAsync(done func(version uint64, err error), d Durability) {
	if done == nil {
		done = func(uint64, error) {}
	}
	if tx.s == nil {
		go done(0, base.ErrTxnDone)
		return
	}
	commits, passedOn := tx.s.engine.Commits, false
	commits.Expect()
	defer func() {
		if !passedOn { // a file system or a context of the caller has panicked
			commits.Unexpect()
		}
	}()
	tx.commitAsync(func(version base.SeqNum, err error) { done(uint64(version), err) }, d)
	passedOn = true
}

// commitAsync is CommitAsync for a caller that has called Expect.
func (tx Txn) commitAsync(tell commit.Done, d Durability) {
	if tx.ended() {
		tx.s.engine.Commits.Tell(tell, base.ErrTxnDone)
		return
	}
	r, err := tx.request(d)
	if tx.s.ahead {
		if e := tx.settle(nil); e != nil {
			err = e
		}
	}
	if r == nil || err != nil {
		tx.end()
		tx.s.engine.Commits.Tell(tell, err)
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
	s.engine.Commits.SubmitAsync(ctx, r, func() { own.end() }, tell)
}

// durability returns what a commit waits for that was given d.
func (e *Engine) durability(d Durability) (Durability, error) {
	switch d {
	case 0:
		return e.Durability, nil
	case Synced, Buffered:
		return d, nil
	}
	return 0, base.Invalid("WithDurability(%d), want Synced or Buffered", d)
}

// request prepares the commit. It returns nil if there is nothing to write.
func (tx Txn) request(d Durability) (*commit.Request, error) {
	if err := tx.Check(); err != nil {
		return nil, err
	}
	d, err := tx.s.engine.durability(d)
	if err != nil {
		return nil, err
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
	return w.Request(tx.s.seq, d != Buffered), nil
}
