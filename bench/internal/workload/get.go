package workload

import (
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

// The numbers of goroutines that read.
const (
	oneReader   = 1
	manyReaders = 16
)

// latencyEvery is the number of reads per measured latency. Reading the clock
// for every read would slow the reads down.
const latencyEvery = 64

// A choice draws the next key to read and tells whether it must exist.
type choice func(rng *random) (number uint64, present bool)

// anyKey draws from all numbers, of which about 63 % exist.
func anyKey(present *Bitset) choice {
	return func(rng *random) (uint64, bool) {
		n := rng.below(present.size)
		return n, present.Has(n)
	}
}

// keyThat draws a key that exists, or one that does not.
func keyThat(exists bool, present *Bitset) choice {
	return func(rng *random) (uint64, bool) {
		for {
			if n := rng.below(present.size); present.Has(n) == exists {
				return n, exists
			}
		}
	}
}

// A getPhase is one timed phase of random reads.
type getPhase struct {
	name    string
	readers int
	choose  choice
	whole   bool // check every byte of the values
	seed    uint64
	length  time.Duration
	every   uint64 // reads per measured latency
}

// gets runs a phase and records the time per read and its percentiles.
func (r *Run) gets(s stores.Store, phase getPhase) error {
	probes, err := r.newProbes(s, phase)
	if err != nil {
		return err
	}
	histograms := make([]measure.Histogram, phase.readers)
	ops, elapsed, err := timed(phase.readers, phase.length, func(w *worker) error {
		rng := newRandom(phase.seed + uint64(w.index)*1000)
		p, h := probes[w.index], &histograms[w.index]
		for w.running() {
			number, present := phase.choose(rng)
			if w.ops%phase.every != 0 {
				if err := p.getOriginal(number, present); err != nil {
					return err
				}
				continue
			}
			began := time.Now()
			if err := p.getOriginal(number, present); err != nil {
				return err
			}
			h.Record(time.Since(began))
		}
		return nil
	})
	for i, p := range probes {
		err = errors.Join(err, p.close())
		if i > 0 {
			histograms[0].Merge(&histograms[i])
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", phase.name, err)
	}
	r.set(phase.name+"_ns", nanosPerOp(ops, elapsed))
	r.set(phase.name+"_per_s", float64(ops)/elapsed.Seconds())
	r.setQuantiles(phase.name, "us", &histograms[0])
	return nil
}

func (r *Run) newProbes(s stores.Store, phase getPhase) ([]*probe, error) {
	var probes []*probe
	for range phase.readers {
		p, err := r.newProbe(s, phase.whole)
		if err != nil {
			return nil, errors.Join(err, closeProbes(probes))
		}
		probes = append(probes, p)
	}
	return probes, nil
}

func closeProbes(probes []*probe) error {
	var err error
	for _, p := range probes {
		err = errors.Join(err, p.close())
	}
	return err
}

// warmWrittenBytes is how many bytes a round of warm may write if its reads start no
// background work.
const warmWrittenBytes = 1 << 20

// warm fills the mappings and caches, and reads in rounds until a round starts no background
// work, or for Limit. Some stores compact what is read often, after a gigabyte or more. That
// must not run beside timed reads. Each round scans for about the time scans.
func (r *Run) warm(s stores.Store, present *Bitset, scans time.Duration) error {
	round := func() error {
		if err := r.warmOnce(s, present, scans); err != nil {
			return err
		}
		// The store was settled when it was closed, so a part of Quiet is enough.
		measure.WaitIdle(r.job.Dir, r.job.Pace.Quiet/4, r.job.Pace.Limit/3)
		return nil
	}
	written := func() int64 { return measure.ProcessUsage().WrittenBytes }
	rounds, err := untilRest(round, written, r.job.Pace.Limit)
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	r.set("warm_rounds", float64(rounds))
	return nil
}

// untilRest calls round until it causes no writes, or for the time limit. written counts the
// bytes that the process has written.
func untilRest(round func() error, written func() int64, limit time.Duration) (rounds int, err error) {
	began := time.Now()
	for {
		before := written()
		if err := round(); err != nil {
			return rounds, err
		}
		rounds++
		wrote := written() - before
		// A negative number is the removal of files with dirty pages, which is work too.
		if max(wrote, -wrote) < warmWrittenBytes || time.Since(began) >= limit {
			return rounds, nil
		}
	}
}

// warmOnce reads everything in order, once or more, and then keys at random.
func (r *Run) warmOnce(s stores.Store, present *Bitset, scans time.Duration) error {
	w, err := r.newWalk(s, present)
	if err != nil {
		return err
	}
	began := time.Now()
	for first := true; err == nil && (first || time.Since(began) < scans); first = false {
		_, err = w.all(false)
	}
	if err = errors.Join(err, w.close()); err != nil {
		return err
	}
	return r.gets(s, getPhase{
		name: "warm", readers: oneReader, choose: anyKey(present), seed: 1, length: r.job.Pace.Warm, every: latencyEvery,
	})
}

// reading opens the store, warms it up with rounds of scans of that length, measures read,
// calls count and closes the store. No goroutine of the harness runs beside count, which
// may be nil. written_mb then says whether background work ran beside the reads.
func (r *Run) reading(readers int, scans time.Duration, count, read func(s stores.Store, present *Bitset) error) error {
	present := r.population.Present()
	s, err := r.open(r.config(false, readers))
	if err != nil {
		return err
	}
	if err := r.warm(s, present, scans); err != nil {
		return errors.Join(err, s.Close())
	}
	before := measure.ProcessUsage()
	sampler := measure.StartSampler(r.job.Dir, nil)
	err = read(s, present)
	peaks, _ := sampler.Stop()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	r.setUsage("", before, 0)
	r.setMemory("", peaks)
	// The sampler allocates, so count runs without it.
	if count != nil {
		if err := count(s, present); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return r.close(s)
}

func runGet(r *Run) error {
	return r.reading(manyReaders, r.job.Pace.Warm, r.countAllocations, func(s stores.Store, present *Bitset) error {
		phases := []struct {
			name   string
			choose choice
			whole  bool
		}{
			{"get", anyKey(present), false},
			{"hit", keyThat(true, present), false},
			{"miss", keyThat(false, present), false},
			{"whole", anyKey(present), true},
		}
		for i, p := range phases {
			for _, readers := range []int{oneReader, manyReaders} {
				err := r.gets(s, getPhase{
					name: fmt.Sprintf("%s_%d", p.name, readers), readers: readers, choose: p.choose,
					whole: p.whole, seed: uint64(i + 2), length: r.job.Pace.Phase, every: latencyEvery,
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}
