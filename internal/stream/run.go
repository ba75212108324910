package stream

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/work"
)

const (
	// RangeSize is the size of a range in bytes: large enough that finding its beginning
	// costs little.
	RangeSize = 1 << 20
	// BatchSize is the size in bytes at which a batch is full.
	BatchSize = 256 << 10
	// room is the number of batches of a range that may wait for the consumer.
	room = 4
	// WorkersDefault and WorkersMax are the default and the maximum of Plan.Workers.
	WorkersDefault = 8
	WorkersMax     = 256
)

// A Plan says how Run reads ranges of type R as batches of type B.
type Plan[R, B any] struct {
	// Workers is the number of goroutines that read. Default: WorkersDefault.
	Workers int
	// Ordered hands over the batches in the order of the ranges.
	Ordered bool
	// Ranges are what to read. One goroutine at a time iterates over them.
	Ranges iter.Seq2[R, error]
	// Read reads a range, and hands its batches to emit. Several goroutines call it at
	// once. An error of emit must end it.
	Read func(ctx context.Context, r R, emit func(B) error) error
	// Send gets the batches, on the goroutine that calls Run.
	Send func(B) error
	// Check, if it is not nil, is asked for each range and before each batch is sent. Its
	// error ends the run. Two goroutines may call it at once.
	Check func() error
}

// A task is a range, and where its batches go.
type task[R, B any] struct {
	r   R
	out chan B
}

// Run reads all ranges. A nil context is never done. Run returns the first error. All of its
// goroutines have ended when it returns, and also when Send panics or ends the goroutine.
func Run[R, B any](ctx context.Context, p Plan[R, B]) error {
	if p.Workers <= 0 {
		p.Workers = WorkersDefault
	}
	p.Workers = min(p.Workers, WorkersMax)
	ctx, stop := context.WithCancelCause(work.Given(ctx))
	var running sync.WaitGroup
	defer func() { // Send may panic, or end this goroutine
		stop(nil)
		running.Wait()
	}()
	tasks := make(chan task[R, B])
	// The ranges under way, in order: those that workers read, and as many that are read
	// and wait for their turn.
	turns := make(chan chan B, 2*p.Workers)
	shared := make(chan B, room*p.Workers)
	running.Go(func() {
		defer close(turns)
		defer close(tasks)
		fail(stop, fault.Guard(func() error { return p.deal(ctx, tasks, turns, shared) }))
	})
	var workers sync.WaitGroup
	for range p.Workers {
		workers.Go(func() {
			for t := range tasks {
				p.read(ctx, stop, t)
			}
		})
	}
	running.Go(func() {
		workers.Wait()
		close(shared)
	})
	if p.Ordered {
		for out := range turns {
			p.drain(ctx, stop, out)
		}
	} else {
		p.drain(ctx, stop, shared)
	}
	running.Wait()
	return ended(ctx)
}

// deal hands the ranges to the workers. After an error of another goroutine it ends.
func (p *Plan[R, B]) deal(ctx context.Context, tasks chan<- task[R, B], turns chan<- chan B, shared chan B) error {
	for r, err := range p.Ranges {
		if err == nil {
			err = p.check()
		}
		if err != nil {
			return err
		}
		t := task[R, B]{r, shared}
		if p.Ordered {
			t.out = make(chan B, room)
			select {
			case turns <- t.out:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case tasks <- t:
		case <-ctx.Done():
			if p.Ordered {
				close(t.out)
			}
			return nil
		}
	}
	return nil
}

// errGoexit says that Read ended its goroutine.
var errGoexit = errors.New("stoat: a function ended the goroutine that called it")

// read reads the range of a task.
func (p *Plan[R, B]) read(ctx context.Context, stop context.CancelCauseFunc, t task[R, B]) {
	err := errGoexit
	defer func() {
		fail(stop, err)
		if p.Ordered {
			close(t.out)
		}
	}()
	err = fault.Guard(func() error { return p.Read(ctx, t.r, emitter(ctx, t.out)) })
}

// drain sends the batches of out, until out is closed. After an error, also one of Send, it
// only empties out: the goroutines that read end soon.
func (p *Plan[R, B]) drain(ctx context.Context, stop context.CancelCauseFunc, out <-chan B) {
	for b := range out {
		if ctx.Err() != nil {
			continue
		}
		err := p.check()
		if err == nil {
			err = p.Send(b)
		}
		fail(stop, err)
	}
}

// check returns why the run must end, or nil.
func (p *Plan[R, B]) check() error {
	if p.Check == nil {
		return nil
	}
	return p.Check()
}

// A failure is the cause of the end of a context, if a goroutine of the run has failed. Any
// other cause is that of the caller's context.
type failure struct{ error }

// fail stops the run if err is not nil.
func fail(stop context.CancelCauseFunc, err error) {
	if err != nil {
		stop(failure{err})
	}
}

// ended returns the error of the goroutine that stopped the run, or that of the caller's
// context, or nil.
func ended(ctx context.Context) error {
	if f, failed := context.Cause(ctx).(failure); failed {
		return f.error
	}
	return ctx.Err()
}

// emitter returns the function by which a worker hands over batches.
func emitter[B any](ctx context.Context, out chan<- B) func(B) error {
	return func(b B) error {
		select {
		case out <- b:
			return nil
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}
