package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/stoatdb/stoat"
)

// manyReaders is the larger number of goroutines that read.
const manyReaders = 16

// seekLength is the number of keys that a short scan reads.
const seekLength = 10

// views measures transactions that do nothing.
func (b *Bench) views(ctx context.Context) error {
	return b.read(ctx, "empty read transaction", 1, func(*rand.Rand) op {
		nothing := func(stoat.Txn) error { return nil }
		return func() error { return b.db.View(nothing) }
	})
}

// gets measures point reads, each in its own transaction.
func (b *Bench) gets(ctx context.Context) error {
	anywhere := func(r *rand.Rand) uint64 { return r.Uint64N(b.work.space) }
	for _, g := range []struct {
		name    string
		workers int
		draw    func(*rand.Rand) uint64
	}{
		{"get, 63 % of the keys exist", 1, anywhere},
		{"get, 63 % of the keys exist", manyReaders, anywhere},
		{"get, the key exists", 1, b.drawn(true)},
		{"get, the key is absent", 1, b.drawn(false)},
	} {
		err := b.read(ctx, g.name, g.workers, func(r *rand.Rand) op { return b.getter(r, g.draw) })
		if err != nil {
			return err
		}
	}
	return nil
}

// drawn returns a function that draws an existing or an absent key.
func (b *Bench) drawn(exists bool) func(*rand.Rand) uint64 {
	return func(r *rand.Rand) uint64 {
		for {
			if n := r.Uint64N(b.work.space); b.oracle.versions[n] != 0 == exists {
				return n
			}
		}
	}
}

// getter returns the operation that reads one key and checks the answer.
func (b *Bench) getter(r *rand.Rand, draw func(*rand.Rand) uint64) op {
	key := b.work.newKey()
	var number uint64
	get := func(tx stoat.Txn) error {
		value, err := tx.Get(key)
		return b.checkGet(value, err, number)
	}
	return func() error {
		number = draw(r)
		b.work.putKey(key, number)
		return b.db.View(get)
	}
}

// ownCost returns the nanoseconds that a measured read spends outside the
// database: drawing a number, making its key and computing the correct value. It
// is the minimum of several rounds.
func (b *Bench) ownCost() float64 {
	const rounds, draws = 8, 20_000
	r := rand.New(rand.NewPCG(b.cfg.Seed, 0))
	key := b.work.newKey()
	var sum uint64
	best := time.Duration(math.MaxInt64)
	for range rounds {
		began := time.Now()
		for range draws {
			number := r.Uint64N(b.work.space)
			b.work.putKey(key, number)
			if version := b.oracle.versions[number]; version != 0 {
				sum += b.work.wantEnds(number, version)
			}
		}
		best = min(best, time.Since(began))
	}
	runtime.KeepAlive(sum)
	return float64(best) / draws
}

// checkGet compares the answer of a Get with the oracle.
func (b *Bench) checkGet(value []byte, err error, number uint64) error {
	version := b.oracle.versions[number]
	switch {
	case err == nil && version != 0:
		return b.work.checkEnds(value, number, version)
	case err == nil:
		return wrongf("key number %d was never written and has a value of %d bytes", number, len(value))
	case !errors.Is(err, stoat.ErrNotFound):
		return err
	case version != 0:
		return wrongf("key number %d, version %d, was not found", number, version)
	}
	return nil
}

// seeks measures short scans from random keys.
func (b *Bench) seeks(ctx context.Context) error {
	name := fmt.Sprintf("seek, then read %d with values", seekLength)
	for _, workers := range []int{1, manyReaders} {
		if err := b.read(ctx, name, workers, b.seeker); err != nil {
			return err
		}
	}
	return nil
}

// seeker returns the operation that reads a few keys in order. It checks the
// values, and that no key is missing.
func (b *Bench) seeker(r *rand.Rand) op {
	key := b.work.newKey()
	var from uint64
	scan := func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{})
		defer it.Close()
		next := from // the smallest number that may follow
		ok := it.Seek(key)
		for n := 0; ok && n < seekLength; n++ {
			number, err := b.work.number(it.Key())
			if err != nil {
				return err
			}
			if err := b.checkGap(next, number); err != nil {
				return err
			}
			if err := b.work.checkEnds(it.Value(), number, b.oracle.versions[number]); err != nil {
				return err
			}
			next = number + 1
			ok = it.Next()
		}
		if err := it.Err(); err != nil || ok {
			return err
		}
		return b.checkGap(next, b.work.space)
	}
	return func() error {
		from = r.Uint64N(b.work.space)
		b.work.putKey(key, from)
		return b.db.View(scan)
	}
}

// checkGap returns ErrWrong if to is less than from, or if a key from from up to
// to exists.
func (b *Bench) checkGap(from, to uint64) error {
	if to < from {
		return wrongf("an iterator returned key number %d, want %d or more", to, from)
	}
	for number, version := range b.oracle.versions[from:to] {
		if version != 0 {
			return wrongf("an iterator skipped key number %d", from+uint64(number))
		}
	}
	return nil
}

// readSample is the number of reads per timed read.
const readSample = 16

// read measures one kind of read and reports it.
func (b *Bench) read(ctx context.Context, name string, workers int, worker func(*rand.Rand) op) error {
	name += ", " + many(workers, "goroutine")
	r, err := b.measure(ctx, job{
		name:        name,
		workers:     workers,
		limit:       b.cfg.ReadDuration,
		sampleEvery: readSample,
		worker: func(w int) op {
			return worker(rand.New(rand.NewPCG(b.cfg.Seed, uint64(w))))
		},
	})
	if err != nil {
		return err
	}
	b.checked += r.ops
	b.report.row(name, r.ops, r)
	return nil
}

// many formats a number of things.
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return count(n) + " " + thing + "s"
}
