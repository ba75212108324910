package bench

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/histogram"
)

// errDone ends a worker that has nothing left to do.
var errDone = errors.New("done")

// An op is one operation of one worker, measured.
type op func() error

// A job is a number of workers that repeat an operation.
type job struct {
	name    string
	workers int
	// limit ends the job; 0: when every worker is done.
	limit time.Duration
	// sampleEvery is how many operations there are for each that is timed by
	// itself. Looking at the clock costs as much as a third of a read.
	sampleEvery int
	// worker returns the operation of the w-th worker.
	worker func(w int) op
	// progress tells how far a job without limit is, from 0 to 1.
	progress func() float64
}

// A result is what a job did.
type result struct {
	ops     uint64
	elapsed time.Duration
	allocs  uint64
	// latency is that of the operations that were timed, shared by all the
	// workers of a job.
	latency *histogram.Histogram
}

// measure runs a job. The first error of a worker, or the end of ctx, stops
// them all.
func (b *Bench) measure(ctx context.Context, j job) (*result, error) {
	var stop atomic.Bool
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()

	ops := make([]op, j.workers)
	for w := range ops {
		ops[w] = j.worker(w)
	}
	results, latency := make([]result, j.workers), new(histogram.Histogram)
	for w := range results {
		results[w].latency = latency
	}
	var wg sync.WaitGroup
	allocsBefore, began := mallocs(), time.Now()
	if j.limit > 0 {
		defer time.AfterFunc(j.limit, func() { stop.Store(true) }).Stop()
		j.progress = func() float64 { return float64(time.Since(began)) / float64(j.limit) }
	}
	defer b.progress.watch(j.name, j.progress)()
	for w := range ops {
		wg.Go(func() {
			if err := results[w].repeat(ops[w], j.sampleEvery, &stop); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	total := &result{elapsed: time.Since(began), allocs: mallocs() - allocsBefore, latency: latency}
	for w := range results {
		total.ops += results[w].ops
	}
	return total, context.Cause(ctx)
}

// repeat runs do until it is done, fails, or stop is set.
func (r *result) repeat(do op, sampleEvery int, stop *atomic.Bool) error {
	for !stop.Load() {
		var err error
		if r.ops%uint64(sampleEvery) == 0 {
			began := time.Now()
			err = do()
			if err == nil {
				r.latency.Add(time.Since(began))
			}
		} else {
			err = do()
		}
		if errors.Is(err, errDone) {
			return nil
		}
		if err != nil {
			return err
		}
		r.ops++
	}
	return nil
}

// mallocs returns how many objects were allocated so far.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
