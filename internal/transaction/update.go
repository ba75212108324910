package transaction

import (
	"cmp"
	"context"
	"math/rand/v2"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/turns"
	"github.com/stoatdb/stoat/internal/work"
)

// pausesAfter is a number of conflicts of an update. After more conflicts the update pauses
// before the next run, although it had its turn. The others do not wait for it.
const pausesAfter = 2

// hotFor is the number of updates that begin early after a conflict.
const hotFor = 1024

// contended reports whether updates have met conflicts of late.
func (e *Engine) contended() bool { return e.hot.Load() > 0 && e.hot.Add(-1) >= 0 }

// An update is one call of Update.
type update struct {
	e   *Engine
	ctx context.Context
	d   Durability
	run func(Txn) error
	// place is the update's place among those that lost the same keys.
	place turns.Place
	// early says that the run reads what is applied, and is applied before its group.
	early bool
	// seen is the snapshot that the last run read, which may not be visible yet.
	seen base.SeqNum
	lost *turns.Claim // what the last run lost, nil if that is not known
}

// Update calls run with a transaction, and commits it if run returns nil. After a conflict
// it does so again, at most retries times.
//
// The first run reads what is visible, unless updates have met conflicts of late. After a
// conflict, the update takes turns with those that want the same keys; see package turns.
//
// From then on a run is early: it reads what is applied, visible or not. So it does not wait
// until the earlier update is on the device. The log holds the earlier update first. If this
// update is on the device, the earlier one is, too. If the earlier one fails, this one fails.
// Without a commit, Update waits until what the last run read is visible.
func (e *Engine) Update(ctx context.Context, retries int, d Durability, run func(Txn) error) error {
	u := &update{e: e, ctx: work.Given(ctx), d: d, run: run}
	returns := false
	defer func() {
		u.place.Leave()
		if !returns { // run panics or ends its goroutine
			_ = u.settle(context.Background())
		}
	}()
	err := retry(retries, u.await, u.attempt)
	u.place.Leave() // before the wait
	returns = true
	return cmp.Or(u.settle(u.ctx), err)
}

// settle waits until what the last run read is visible.
func (u *update) settle(ctx context.Context) error {
	return u.e.Commits.AwaitVisible(ctx, u.seen)
}

// attempt runs the function once, and commits.
func (u *update) attempt() error {
	u.lost = nil
	if err := u.ctx.Err(); err != nil {
		return err
	}
	acquire := u.e.Store.Acquire
	if u.early = u.place.In() || u.e.contended(); u.early {
		acquire = u.e.Store.AcquireApplied
	}
	slot, err := acquire()
	if err != nil {
		return err
	}
	tx := u.e.BeginAt(u.ctx, slot, true)
	defer tx.end()
	tx.s.ahead = u.early
	u.seen = tx.s.seq
	if err := u.run(tx); err != nil {
		return err
	}
	return u.commit(tx)
}

// commit commits what the function did.
func (u *update) commit(tx Txn) error {
	if tx.ended() {
		return base.ErrTxnDone
	}
	r, err := tx.request(u.d)
	if r == nil || err != nil {
		return err
	}
	r.Retried()
	if !u.place.In() {
		// If others take turns for what this update has read, it takes its turn before it
		// meets their conflicts.
		if claim, ok := u.e.Commits.Line.Meets(&tx.s.writes.Reads); ok {
			u.e.Commits.Line.Join(&u.place, claim)
			if err := u.place.Wait(u.ctx, u.e.Group.Stopped().Done()); err != nil {
				return err
			}
		}
	}
	through := u.e.Commits.Submit
	if u.early || u.place.In() {
		through = func(ctx context.Context, r *commit.Request) error {
			return u.e.Commits.SubmitEarly(ctx, r, u.place.Leave)
		}
	}
	err = tx.submit(r, through)
	u.lost = r.Lost()
	return err
}

// await waits until the update may run again, after that many runs.
func (u *update) await(failed int) error {
	if u.lost != nil {
		u.e.hot.Store(hotFor)
		u.e.Commits.Line.Join(&u.place, *u.lost)
	}
	switch {
	case !u.place.In():
		return u.e.Group.Sleep(u.ctx, backoff(failed, rand.Uint64()))
	case failed > pausesAfter:
		if err := u.e.Group.Sleep(u.ctx, backoff(failed-pausesAfter, rand.Uint64())); err != nil {
			return err
		}
	}
	return u.place.Wait(u.ctx, u.e.Group.Stopped().Done())
}
