package work

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stoatdb/stoat/internal/lock"
)

// ErrStopped ends a job in the middle because the database is being closed.
var ErrStopped = errors.New("stoat: stopped")

// How long a worker waits after an error, unless it is woken.
const (
	// RetryAfter is the wait after the first error.
	RetryAfter = time.Second
	// RetryMax is the longest wait of a worker that no caller waits for. The wait
	// doubles after each more error in a row.
	RetryMax = time.Minute
)

// A Step does what is due and returns after how long it wants to be called
// again although nothing wakes its worker; 0 is never. It reports its own errors.
// With an error, again is how long the worker waits; 0 leaves that to the worker.
type Step func() (again time.Duration, err error)

// A Worker is a goroutine that does its step whenever it is woken.
type Worker struct {
	exec     *Executor
	token    chan struct{} // has an element when there may be work
	retryMax time.Duration // the longest wait after errors
	// Patient: after an error no wake-up ends the wait. Set it before the start.
	Patient bool
}

// NewWorker returns a worker that waits at most retryMax after errors.
func NewWorker(exec *Executor, retryMax time.Duration) *Worker {
	return &Worker{exec: exec, token: make(chan struct{}, 1), retryMax: retryMax}
}

// Wake makes the worker look for work. It returns at once.
func (w *Worker) Wake() {
	select {
	case w.token <- struct{}{}:
	default:
	}
	if w.exec.Woken != nil {
		w.exec.Woken(w)
	}
}

// A Group is the goroutines of one database that end with it.
type Group struct {
	exec    *Executor
	running sync.WaitGroup
	stopped context.Context // done when Close wants the end
	stop    context.CancelFunc
	// refused is done when no operation begins any more, and those under way are to end.
	refused context.Context
	refuse  context.CancelFunc
	// ending is held to add to running, and to stop. So End waits for all that
	// Enter has let in.
	ending lock.Mutex[lock.Ending]
}

// NewGroup returns a group without goroutines.
func NewGroup(exec *Executor) *Group {
	g := &Group{exec: exec}
	g.stopped, g.stop = context.WithCancel(context.Background())
	g.refused, g.refuse = context.WithCancel(g.stopped)
	return g
}

// Run starts the goroutine of w, unless the executor is manual. It does step
// after first, unless that is 0, whenever w is woken, and again after the time
// that step returns.
func (g *Group) Run(w *Worker, first time.Duration, step Step) {
	if g.exec.Manual {
		return
	}
	g.running.Go(func() {
		timer := time.NewTimer(first)
		defer timer.Stop()
		if first == 0 {
			timer.Stop()
		}
		retry, token := RetryAfter, w.token
		for {
			select {
			case <-g.stopped.Done():
				return
			case <-token:
			case <-timer.C:
			}
			again, err := step()
			if err != nil && again == 0 {
				again, retry = retry, min(2*retry, w.retryMax)
			} else {
				retry = RetryAfter
			}
			if token = w.token; err != nil && w.Patient {
				token = nil
			}
			if timer.Stop(); again > 0 {
				timer.Reset(again)
			}
		}
	})
}

// Works reports whether workers run: waiting for what they do may help.
func (g *Group) Works() bool { return !g.exec.Manual && g.stopped.Err() == nil }

// Enter counts the caller among what End waits for, and reports false when it
// is too late for that. The caller calls Leave.
func (g *Group) Enter() bool {
	g.ending.Lock()
	defer g.ending.Unlock()
	if g.stopped.Err() != nil {
		return false
	}
	g.running.Add(1)
	return true
}

// Leave ends what Enter began.
func (g *Group) Leave() { g.running.Done() }

// Refuse ends operations, and makes Begin refuse others. Close calls it before it waits for
// commits, which may still Enter and need the workers. A callback of a commit may wait for
// an operation.
func (g *Group) Refuse() { g.refuse() }

// Stopped returns a context that is done when Close wants the end.
func (g *Group) Stopped() context.Context { return g.stopped }

// Err returns ErrStopped when Close wants the end.
func (g *Group) Err() error {
	if g.stopped.Err() != nil {
		return ErrStopped
	}
	return nil
}

// Sleep sleeps, at most until the group is stopped. When ctx is done before, it
// returns the error of ctx.
func (g *Group) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.stopped.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// End stops the goroutines and waits for them.
func (g *Group) End() {
	g.ending.Lock()
	g.stop()
	g.ending.Unlock()
	g.running.Wait()
}
