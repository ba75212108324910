package stoat

import (
	"context"
	"errors"
)

// beginOperation begins long work that a caller waits for, such as Compact.
// The context that it returns is done when the caller's is, or when Close wants
// the end; interrupted tells which. Close waits until end has been called.
func (d *DB) beginOperation(ctx context.Context) (_ context.Context, end func(), err error) {
	ctx = given(ctx)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	b := &d.background
	if d.closed.Load() || !b.enter() {
		return nil, nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(b.stopped, func() { cancel(errClosing) })
	return ctx, func() {
		unhook()
		cancel(nil)
		b.running.Done()
	}, nil
}

// given returns the context that a caller gave, of which none is one that never ends.
func given(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// enter counts the caller among what end waits for, unless it is too late.
func (b *background) enter() bool {
	b.ending.Lock()
	defer b.ending.Unlock()
	if b.stopped.Err() != nil {
		return false
	}
	b.running.Add(1)
	return true
}

// errClosing is the cause of the end of an operation that Close wants. Users
// never see it, so that none of their contexts ends with it.
var errClosing = errors.New("stoat: closing")

// interrupted returns why the context of an operation is done, or nil: ErrClosed,
// or the error of the caller's context. Its cause may be any error, also one of
// ours that somebody else has met, and so would tell the caller something false.
func interrupted(ctx context.Context) error {
	err := ctx.Err()
	if err != nil && context.Cause(ctx) == errClosing {
		return ErrClosed
	}
	return err
}

// flushAll returns when everything that was committed before the call is in
// tables.
func (d *DB) flushAll(ctx context.Context) error {
	target := d.lastVersion()
	done := func() bool {
		if d.manifest.State().FlushedSeq >= target {
			return true
		}
		v := d.view.Load()
		return len(v.tables) == 1 && v.tables[0].Len() == 0
	}
	if done() {
		return nil
	}
	if err := d.rotate(); err != nil {
		return err
	}
	return d.admission.await(ctx, done)
}

// await returns when flushes have made done true, or with the error of one that
// began after the call and failed.
func (a *admission) await(ctx context.Context, done func() bool) error {
	defer context.AfterFunc(ctx, a.interrupt)()
	a.mu.Lock()
	defer a.mu.Unlock()
	for next := a.nextFlush(); !done(); a.ended.Wait() {
		if err := interrupted(ctx); err != nil {
			return err
		}
		if err := a.db.commits.poisoned(); err != nil {
			return err
		}
		if a.flushes >= next && a.err != nil {
			return a.err
		}
		a.db.background.flusher.wake()
	}
	return nil
}
