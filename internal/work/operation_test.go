package work

import (
	"context"
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// An errgroup ends the contexts of all with the error of one of them as the cause.
// It tells the others nothing about their own databases.
func TestInterrupted_TellsTheErrorOfTheContextAndNotItsCause(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{base.ErrCorrupt, base.ErrClosed, base.ErrConflict} {
		g := NewGroup(&Executor{Manual: true})
		outer, cancel := context.WithCancelCause(t.Context())
		ctx, end, err := g.Begin(outer)
		if err != nil {
			t.Fatal(err)
		}
		if err := Interrupted(ctx); err != nil {
			t.Errorf("nothing has ended, and the operation does with %v", err)
		}
		cancel(cause)
		<-ctx.Done()
		if err := Interrupted(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, cause) {
			t.Errorf("cancelled because of %v: %v", cause, err)
		}
		if _, _, err := g.Begin(outer); !errors.Is(err, context.Canceled) {
			t.Errorf("an operation begins with a context that is done: %v", err)
		}
		end()
		g.End()
	}
}

func TestInterrupted_TellsThatTheDatabaseIsBeingClosed(t *testing.T) {
	t.Parallel()
	g := NewGroup(&Executor{Manual: true})
	ctx, end, err := g.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { g.End(); close(ended) }()
	<-ctx.Done()
	if err := Interrupted(ctx); !errors.Is(err, base.ErrClosed) {
		t.Errorf("%v, want %v", err, base.ErrClosed)
	}
	select {
	case <-ended:
		t.Error("the group has ended before its operation")
	default:
	}
	end()
	<-ended
	if _, _, err := g.Begin(t.Context()); !errors.Is(err, base.ErrClosed) {
		t.Errorf("an operation begins after the end: %v", err)
	}
}
