package filebackup

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

const (
	// workersDefault is how many files are copied at once.
	workersDefault = 4
	// workersMax is the most that a caller may ask for.
	workersMax = 256
	// bufferSize is the size in bytes of the buffer of one copy.
	bufferSize = 256 << 10
)

// errEnded says that a method of the store ended the goroutine of a copy.
var errEnded = errors.New("filebackup: a method of the store ended the goroutine that called it")

// each calls fn for all items, some of them at once. The first error cancels the context of
// the others, and is returned when all calls have ended.
func each[T any](ctx context.Context, workers int, items []T, fn func(ctx context.Context, item *T) error) error {
	parent := ctx
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	var first error
	var once sync.Once
	var next atomic.Int64
	run := func() error {
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= len(items) {
				break
			}
			if err := fn(ctx, &items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	var running sync.WaitGroup
	for range min(workers, len(items)) {
		running.Go(func() {
			err := errEnded // unless run returns
			defer func() {
				if err != nil {
					once.Do(func() { first = err })
					cancel()
				}
			}()
			err = run()
		})
	}
	running.Wait()
	return cmp.Or(first, parent.Err())
}
