package workload

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

const (
	// besidePerSecond is the number of puts per second of the writer.
	besidePerSecond = 8000

	// besideEntries is the number of entries read after a seek.
	besideEntries = 20
)

// runBeside measures seeks alone, and then beside a writer with a fixed rate of
// unsynced puts. The writer puts the values that the keys already have, so every
// answer can be checked.
func runBeside(r *Run) error {
	present := r.population.Present()
	c := r.unsynced(1)
	c.Beside = true
	s, err := r.open(c)
	if err != nil {
		return err
	}
	if err := r.besideWriter(s, present); err != nil {
		return errors.Join(err, s.Close())
	}
	return r.close(s)
}

func (r *Run) besideWriter(s stores.Store, present *Bitset) error {
	if err := r.warm(s, present, r.job.Pace.Phase); err != nil {
		return err
	}
	alone, err := r.timedSeeks(s, present, "seek20_alone")
	if err != nil {
		return err
	}
	var stop atomic.Bool
	var puts uint64
	var wrote error
	var writer sync.WaitGroup
	began := time.Now()
	writer.Go(func() {
		puts, wrote = r.putAtRate(s, present, &stop)
		r.set("beside_puts_per_s", float64(puts)/time.Since(began).Seconds())
	})
	beside, err := r.timedSeeks(s, present, "seek20_beside")
	stop.Store(true)
	writer.Wait()
	if err = errors.Join(err, wrote); err != nil {
		return err
	}
	r.set("seek20_slowdown", beside/alone)
	return nil
}

// timedSeeks measures every seek for one phase, and returns the mean time in
// nanoseconds.
func (r *Run) timedSeeks(s stores.Store, present *Bitset, name string) (float64, error) {
	w, err := r.newWalk(s, present)
	if err != nil {
		return 0, err
	}
	var h measure.Histogram
	ops, elapsed, err := timed(1, r.job.Pace.Phase, func(worker *worker) error {
		rng := newRandom(78)
		for worker.running() {
			began := time.Now()
			if err := w.some(rng.below(present.size), besideEntries); err != nil {
				return err
			}
			h.Record(time.Since(began))
		}
		return nil
	})
	if err = errors.Join(err, w.close()); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	mean := nanosPerOp(ops, elapsed)
	r.set(name+"_ns", mean)
	r.setQuantiles(name, "us", &h)
	return mean, nil
}

// putAtRate writes existing keys at the rate of besidePerSecond until stop, and
// returns how many.
func (r *Run) putAtRate(s stores.Store, present *Bitset, stop *atomic.Bool) (puts uint64, err error) {
	p := &r.population
	b := stores.NewBatch(make([]byte, 0, KeySize+p.Values.Size))
	rng, choose := newRandom(79), keyThat(true, present)
	var text Key
	for began := time.Now(); !stop.Load(); {
		due := uint64(time.Since(began).Seconds() * besidePerSecond)
		if puts >= due {
			time.Sleep(time.Millisecond / 2)
			continue
		}
		number, _ := choose(rng)
		p.Keys.Put(&text, number)
		b.Reset()
		p.Values.Fill(b.Reserve(text[:], p.Values.Size), number, 0)
		if err := s.Apply(b); err != nil {
			return puts, err
		}
		puts++
	}
	return puts, nil
}
