package testkit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// Raise raises a number to seq unless it is higher already.
func Raise(promise *atomic.Uint64, seq uint64) {
	for {
		old := promise.Load()
		if old >= seq || promise.CompareAndSwap(old, seq) {
			return
		}
	}
}

// CatchPanic turns a panic into an error.
func CatchPanic(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := make([]byte, 16<<10)
			err = fmt.Errorf("panic: %v\n%s", p, stack[:runtime.Stack(stack, false)])
		}
	}()
	return do()
}

// Times calls do n times and stops at the first error.
func Times(n int, do func(i int) error) error {
	for i := range n {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

// Concurrently calls do in n goroutines, each with random numbers of its own,
// and joins their errors.
func Concurrently(n int, do func(i int, rng *rand.Rand) error, seed uint64) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = do(i, rand.New(rand.NewPCG(seed, uint64(100+i)))) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// InParallel calls do for the numbers below n, on all processors, until one call fails. It
// returns the first error. A panic is an error.
func InParallel(n int, do func(i int) error) error {
	var next atomic.Int64
	var failed FirstError
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for failed.Get() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				failed.Set(CatchPanic(func() error { return do(i) }))
			}
		})
	}
	workers.Wait()
	return failed.Get()
}

// FirstError keeps the first error of many goroutines.
type FirstError struct {
	once sync.Once
	err  atomic.Pointer[error]
}

// Set keeps err unless err is nil or an earlier error is kept.
func (f *FirstError) Set(err error) {
	if err != nil {
		f.once.Do(func() { f.err.Store(&err) })
	}
}

// Get returns the error that is kept, or nil.
func (f *FirstError) Get() error {
	if p := f.err.Load(); p != nil {
		return *p
	}
	return nil
}
