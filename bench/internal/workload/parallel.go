package workload

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A worker is one goroutine of a timed phase.
type worker struct {
	index int
	stop  *atomic.Bool
	ops   uint64 // operations begun
}

// running returns whether the phase goes on, and counts an operation if so. Even when the
// machine is too busy for the phase, each worker does one operation.
func (w *worker) running() bool {
	if w.ops > 0 && w.stop.Load() {
		return false
	}
	w.ops++
	return true
}

// timed runs body in n goroutines for about d. It returns the number of all
// operations, and the time until the last goroutine ended. An error ends the
// phase.
func timed(n int, d time.Duration, body func(w *worker) error) (ops uint64, elapsed time.Duration, err error) {
	var stop atomic.Bool
	workers := make([]worker, n)
	errs := make([]error, n)
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	began := time.Now()
	var wg sync.WaitGroup
	for i := range workers {
		workers[i] = worker{index: i, stop: &stop}
		wg.Go(func() {
			// A local copy keeps the counters off a shared cache line.
			own := workers[i]
			if errs[i] = body(&own); errs[i] != nil {
				stop.Store(true)
			}
			workers[i] = own
		})
	}
	wg.Wait()
	elapsed = time.Since(began)
	for i := range workers {
		ops += workers[i].ops
	}
	return ops, elapsed, errors.Join(errs...)
}

// nanosPerOp returns the time of the phase divided by the operations. With more
// goroutines than processors it is the inverse of the throughput, not a latency.
func nanosPerOp(ops uint64, elapsed time.Duration) float64 {
	return float64(elapsed) / float64(max(ops, 1))
}
