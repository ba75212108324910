package work

import (
	"context"
	"errors"

	"github.com/stoatdb/stoat/internal/base"
)

// Begin begins long work that a caller waits for, such as a manual compaction.
// The context that it returns is done when the caller's is, or after Refuse;
// Interrupted tells which. Close waits until end has been called. After Refuse the
// error is ErrClosed.
func (g *Group) Begin(ctx context.Context) (_ context.Context, end func(), err error) {
	ctx = Given(ctx)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if g.refused.Err() != nil || !g.Enter() {
		return nil, nil, base.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(g.refused, func() { cancel(errClosing) })
	return ctx, func() {
		unhook()
		cancel(nil)
		g.Leave()
	}, nil
}

// Ended returns the error of an operation with ctx that ended with err. If ctx is done, that
// is the reason. If Close wants the end, that is ErrClosed.
func Ended(ctx context.Context, err error) error {
	if e := Interrupted(ctx); e != nil {
		return e
	}
	if errors.Is(err, ErrStopped) { // ctx will be done in a moment
		return base.ErrClosed
	}
	return err
}

// Given returns the context that a caller gave; nil is one that is never done.
func Given(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// errClosing is the cause of the end of an operation that Close wants. Users
// never see it, so none of their contexts ends with it.
var errClosing = errors.New("stoat: closing")

// Interrupted returns why the context of an operation is done, or nil: ErrClosed,
// or the error of the caller's context.
func Interrupted(ctx context.Context) error {
	err := ctx.Err()
	if err != nil && context.Cause(ctx) == errClosing {
		return base.ErrClosed
	}
	return err
}
