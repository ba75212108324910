package stoat

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// background is the work that nobody asked for: a goroutine that flushes
// memtables, one that compacts tables, one that gives back what readers have
// let go of, and now and then one that collects garbage. Each does its work in steps, waits when a step found
// nothing to do, and is woken by who makes work. Close ends them between two
// steps, and stops a compaction in the middle of one.
type background struct {
	flusher, compactor, sweeper worker
	collector                   collector

	idle struct {
		dozing atomic.Bool // the flusher waits for a commit to wake it
		// retry is how long the flusher waited after the flush that failed last
		// although nobody waited for it, 0 if none has since one succeeded. It is the
		// flusher's.
		retry time.Duration
	}

	quiet     quietTime
	deletions deletionsLook // the flusher's
	trickle   trickle       // the flusher's

	running sync.WaitGroup
	ending  sync.Mutex // held to add to running, and to stop
	stop    context.CancelFunc
	stopped context.Context // done when Close wants the end
}

// A worker is one of these goroutines.
type worker struct {
	work     chan struct{} // holds a token when there may be work
	retryMax time.Duration // how long it waits at most after an error
}

func (w *worker) init() { w.work, w.retryMax = make(chan struct{}, 1), retryAfter }

// wake makes the worker look for work.
func (w *worker) wake() {
	select {
	case w.work <- struct{}{}:
	default:
	}
}

// errStopped ends work in the middle because the database is being closed.
var errStopped = errors.New("stoat: stopped")

// retryAfter is how long a worker waits after an error, unless it is woken. The
// compactor and the collector, for whom nobody waits, wait twice as long after
// each more in a row, up to patientRetryMax. So does the flusher from there on, up to
// idleRetryMax, where nothing but idleness asks for a flush.
const (
	retryAfter      = time.Second
	patientRetryMax = time.Minute
	idleRetryMax    = time.Hour
)

func (b *background) init() {
	b.stopped, b.stop = context.WithCancel(context.Background())
	b.idle.dozing.Store(true) // the first commit wakes the flusher
	for _, w := range []*worker{&b.flusher, &b.compactor, &b.sweeper} {
		w.init()
	}
	b.compactor.retryMax = patientRetryMax
}

// startBackground starts the goroutines, unless somebody else drives the work.
func (d *DB) startBackground() {
	if d.driver != nil {
		return
	}
	b := &d.background
	b.quiet.stir() // whoever opens a database is about to use it
	b.run(&b.flusher, idleAfter, d.flushStep)
	b.run(&b.compactor, 0, d.compactStep)
	b.run(&b.sweeper, 0, func() (time.Duration, error) { d.sweep(); return 0, nil })
}

// run starts a goroutine that does step after first, unless that is 0, whenever
// w is woken, and again after the time that step asks for, if it asks. An error
// is for the step itself to report; it is tried again after a while.
func (b *background) run(w *worker, first time.Duration, step func() (again time.Duration, err error)) {
	b.running.Go(func() {
		timer := time.NewTimer(first)
		defer timer.Stop()
		if first == 0 {
			timer.Stop()
		}
		retry := retryAfter
		for {
			select {
			case <-b.stopped.Done():
				return
			case <-w.work:
			case <-timer.C:
			}
			again, err := step()
			if err != nil {
				again, retry = retry, min(2*retry, w.retryMax)
			} else {
				retry = retryAfter
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

// A calm is how long a database has been left alone, as far as the work behind
// cares.
type calm uint8

const (
	// busy: commits come.
	busy calm = iota
	// pausing: there has been none for pauseAfter. A load may have ended, and
	// what it left in level 0 makes every read slower.
	pausing
	// idling: there has been none for idleAfter.
	idling
)

const (
	pauseAfter = 100 * time.Millisecond
	// idleAfter is how long nobody must have committed for the database to
	// be called idle.
	idleAfter = time.Second
)

// A quietTime tells for how long a database has been left alone.
type quietTime struct {
	from atomic.Int64 // when the last commit was published, of monotonic
}

// stir notes a commit, and returns when that was.
func (q *quietTime) stir() int64 {
	now := monotonic()
	q.from.Store(now)
	return now
}

// quiet returns how long it has been.
func (q *quietTime) quiet() time.Duration {
	if from := q.from.Load(); from != 0 {
		return time.Duration(monotonic() - from)
	}
	return math.MaxInt64
}

// calm returns how calm it is, and in how much time it will be calmer if nobody
// commits, which is 0 when it cannot be.
func (q *quietTime) calm() (now calm, calmer time.Duration) {
	switch quiet := q.quiet(); {
	case quiet < pauseAfter:
		return busy, pauseAfter - quiet
	case quiet < idleAfter:
		return pausing, idleAfter - quiet
	}
	return idling, 0
}

// began is where monotonic begins.
var began = time.Now()

// monotonic returns nanoseconds of a clock that nobody sets: what is paced or
// waited for must not depend on one that goes back.
func monotonic() int64 { return int64(time.Since(began)) + 1 }
