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

// errDone ends a worker.
var errDone = errors.New("done")

// An op is one measured operation of one worker.
type op func() error

// A job is a set of workers that repeat an operation.
type job struct {
	name    string
	workers int
	// limit is the time of the job; 0 means until every worker returns errDone.
	limit time.Duration
	// sampleEvery is the number of operations per timed operation. Reading the
	// clock costs up to a third of a read.
	sampleEvery int
	// worker returns the operation of the w-th worker.
	worker func(w int) op
	// progress returns the progress of a job without limit, from 0 to 1.
	progress func() float64
}

// A result is the measurement of a job.
type result struct {
	ops     uint64
	elapsed time.Duration
	allocs  uint64
	// latency has the timed operations. All workers of a job share it.
	latency *histogram.Histogram
}

// measure runs a job. The first error of a worker, or the end of ctx, stops all
// workers.
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

// repeat calls do until it returns an error or stop is set. errDone is no
// failure.
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

// mallocs returns the number of objects allocated so far.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
