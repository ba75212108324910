package stoat

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// background is the work that nobody asked for: a goroutine that flushes
// memtables, one that compacts tables, and one that gives back what readers
// have let go of. Each does its work in steps, waits when a step found
// nothing to do, and is woken by who makes work. Close ends them between two
// steps, and stops a compaction in the middle of one.
type background struct {
	flusher, compactor, sweeper worker

	idle struct {
		dozing atomic.Bool // the flusher waits for a commit to wake it
	}

	quiet quietTime

	running sync.WaitGroup
	ending  sync.Mutex // held to add to running, and to stop
	stop    context.CancelFunc
	stopped context.Context // done when Close wants the end
}

// A worker is one of these goroutines.
type worker struct {
	work chan struct{} // holds a token when there may be work
}

func (w *worker) init() { w.work = make(chan struct{}, 1) }

// wake makes the worker look for work.
func (w *worker) wake() {
	select {
	case w.work <- struct{}{}:
	default:
	}
}

// errStopped ends work in the middle because the database is being closed.
var errStopped = errors.New("stoat: stopped")

// retryAfter is how long a worker waits after an error, unless it is woken.
const retryAfter = time.Second

func (b *background) init() {
	b.stopped, b.stop = context.WithCancel(context.Background())
	for _, w := range []*worker{&b.flusher, &b.compactor, &b.sweeper} {
		w.init()
	}
}

// start starts the goroutines.
func (d *DB) startBackground() {
	b := &d.background
	b.run(&b.flusher, d.flushStep)
	b.run(&b.compactor, d.compactStep)
	b.run(&b.sweeper, func() (time.Duration, error) { d.sweep(); return 0, nil })
}

// run starts a goroutine that does step whenever w is woken, and again after
// the time that step asks for, if it asks. An error is for the step itself to
// report; it is tried again after a while.
func (b *background) run(w *worker, step func() (again time.Duration, err error)) {
	b.running.Go(func() {
		timer := time.NewTimer(0)
		timer.Stop()
		defer timer.Stop()
		for {
			select {
			case <-b.stopped.Done():
				return
			case <-w.work:
			case <-timer.C:
			}
			again, err := step()
			if err != nil {
				again = retryAfter
			}
			if timer.Stop(); again > 0 {
				timer.Reset(again)
			}
		}
	})
}

// end stops the goroutines and waits for them.
func (b *background) end() {
	b.ending.Lock()
	b.stop()
	b.ending.Unlock()
	b.running.Wait()
}

// A quietTime tells for how long a database has been left alone.
type quietTime struct {
	from atomic.Int64 // when the last commit was published, in Unix nanoseconds
}

// stir notes a commit.
func (q *quietTime) stir() { q.from.Store(time.Now().UnixNano()) }

// left returns how long it is until the database is idle, 0 if it is.
func (q *quietTime) left() time.Duration {
	return max(0, idleAfter-time.Duration(time.Now().UnixNano()-q.from.Load()))
}
