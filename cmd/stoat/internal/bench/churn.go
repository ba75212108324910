package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
)

// A churn writes every key once, then overwrites randomly drawn keys, and reads
// beside the writers. Only one goroutine writes a key. A read must therefore
// return a version between the last one acknowledged before the read began and
// the last one begun before it ended.
type churn struct {
	b             *Bench
	begun, acked  []atomic.Uint32 // versions, by number of the key
	space         *spaceWatch
	user, written int64 // bytes of keys and values so far; bytes written to devices before the churn
}

// restFor is the longest idle time after the overwriting.
const restFor = time.Minute

// churn is the phase that runs a churn.
func (b *Bench) churn(ctx context.Context) error {
	c := &churn{b: b, begun: make([]atomic.Uint32, b.work.space), acked: make([]atomic.Uint32, b.work.space)}
	began := time.Now()
	c.written, _ = deviceBytesWritten()
	c.space = watchSpace(b.db, b.dir)
	defer c.space.stop()
	load, again := c.fillers()
	if err := c.write(ctx, "load", b.cfg.Keys, load); err != nil {
		return err
	}
	b.noteLoadPeak()
	c.space.restart()
	if err := c.write(ctx, "overwrite", b.cfg.Overwrite*b.cfg.Keys, again); err != nil {
		return err
	}
	if err := b.db.Sync(); err != nil {
		return err
	}
	took := time.Since(began)
	for number := range c.acked {
		b.oracle.versions[number] = shown(c.acked[number].Load())
	}
	return c.rest(ctx, took)
}

// shown maps the count of a key's writes to the version of its value: 1 to 255,
// then 1 again.
func shown(n uint32) uint8 {
	if n == 0 {
		return 0
	}
	return uint8((n-1)%255 + 1)
}

// A filler returns the number of the key for the i-th write, which writer does.
type filler func(r *rand.Rand, writer, i int) (number uint64)

// fillers returns the fillers of the load and of the overwriting. The latter
// replaces a drawn key by a near one that the writer owns.
func (c *churn) fillers() (load, again filler) {
	w, keys, writers := &c.b.work, uint64(c.b.cfg.Keys), uint64(c.b.cfg.Writers)
	draw := func(r *rand.Rand) uint64 { return r.Uint64N(keys) }
	if s := c.b.cfg.Zipf; s > 0 {
		z := newZipf(keys, s)
		draw = z.draw
	}
	load = func(_ *rand.Rand, _, i int) uint64 { return w.permute(uint64(i)) }
	again = func(r *rand.Rand, writer, _ int) uint64 {
		n := draw(r)
		if n = n - n%writers + uint64(writer); n >= keys {
			n -= min(n, writers)
		}
		return w.permute(n)
	}
	return load, again
}

// write commits total writes in batches, beside readers.
func (c *churn) write(ctx context.Context, name string, total int, next filler) error {
	b, cfg := c.b, &c.b.cfg
	var at atomic.Int64
	var reading sync.WaitGroup
	var reads result
	var failed error
	readCtx, stopReading := context.WithCancel(ctx)
	reading.Go(func() {
		if cfg.Readers == 0 {
			return
		}
		r, err := b.measure(readCtx, job{name: "get beside the " + name, workers: cfg.Readers, sampleEvery: besideSample, worker: c.reader})
		if r != nil {
			reads = *r
		}
		if !errors.Is(err, context.Canceled) {
			failed = err
		}
	})
	r, err := b.measure(ctx, job{
		name: name, workers: cfg.Writers, sampleEvery: 1,
		progress: func() float64 { return float64(at.Load()) / float64(total) },
		worker:   func(w int) op { return c.writer(w, &at, total, next) },
	})
	stopReading()
	reading.Wait()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	c.user += int64(total) * int64(b.work.keySize()+b.work.valueSize)
	b.report.row(fmt.Sprintf("%s, %s, batches of %s", name, many(cfg.Writers, "writer"), count(cfg.Batch)), uint64(total), r)
	if cfg.Readers > 0 {
		b.checked += reads.ops
		b.report.row("get beside the "+name+", "+many(cfg.Readers, "goroutine"), reads.ops, &reads)
	}
	return nil
}

// writer returns the operation that writes one batch.
func (c *churn) writer(w int, at *atomic.Int64, total int, next filler) op {
	r := rand.New(rand.NewPCG(c.b.cfg.Seed, uint64(w)))
	key, batch := c.b.work.newKey(), c.b.cfg.Batch
	var value []byte
	var numbers []uint64
	return func() error {
		to := int(at.Add(int64(batch)))
		from := to - batch
		if from >= total {
			return errDone
		}
		numbers = numbers[:0]
		for i := from; i < min(to, total); i++ {
			numbers = append(numbers, next(r, w, i))
		}
		err := c.b.db.Update(func(tx stoat.Txn) error {
			for _, number := range numbers {
				c.b.work.putKey(key, number)
				value = c.b.work.value(value[:0], number, shown(c.begun[number].Add(1)))
				if err := tx.Set(key, value); err != nil {
					return err
				}
			}
			return nil
		})
		for _, number := range numbers {
			c.acked[number].Store(c.begun[number].Load())
		}
		return err
	}
}

// Readers beside writers pause after every burst, so that they leave processor
// time to the writers. The pause is in the last read of a burst, which is never
// a timed one.
const (
	besideBurst  = 64 // reads between two pauses
	besideSample = 4  // reads per timed read
	besidePause  = time.Millisecond
)

// reader returns the operation that reads one key and checks its version.
func (c *churn) reader(w int) op {
	r := rand.New(rand.NewPCG(c.b.cfg.Seed, 1<<32+uint64(w)))
	work := &c.b.work
	key := work.newKey()
	n := 0
	return func() error {
		if n++; n%besideBurst == 0 {
			time.Sleep(besidePause)
		}
		number := work.permute(r.Uint64N(uint64(c.b.cfg.Keys)))
		work.putKey(key, number)
		least := c.acked[number].Load() // load it before the snapshot
		return c.b.db.View(func(tx stoat.Txn) error {
			value, err := tx.Get(key)
			most := c.begun[number].Load()
			if errors.Is(err, stoat.ErrNotFound) && least == 0 {
				return nil
			}
			if err != nil {
				return fmt.Errorf("key number %d, version %d or newer: %w", number, least, err)
			}
			for v := least; v <= most; v++ {
				if v > 0 && len(value) == work.valueSize && ends(value) == work.wantEnds(number, shown(v)) {
					return nil
				}
			}
			return wrongf("key number %d has none of the versions %d to %d", number, least, most)
		})
	}
}

// rest idles, and records the space before and after.
func (c *churn) rest(ctx context.Context, took time.Duration) error {
	b := c.b
	c.space.stop()
	stop := b.progress.watch("rest", nil)
	select {
	case <-ctx.Done():
	case <-time.After(min(restFor, b.cfg.RestMax)):
	}
	stop()
	live := int64(b.cfg.Keys) * int64(b.work.keySize()+b.work.valueSize)
	_, now, err := diskUsage(b.dir)
	b.report.churned = &churned{took: took, live: live, user: c.user, peak: c.space.peak, atRest: now, stats: b.db.Stats()}
	if n, ok := deviceBytesWritten(); ok {
		b.report.churned.written = n - c.written
	}
	return errors.Join(err, ctx.Err())
}
