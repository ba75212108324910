package workload

import (
	"errors"
	"fmt"
	"math"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

// LimitedBytes returns the memory limit of the limited workloads at a scale. It
// has a minimum, below which a Go program with its caches cannot run.
func LimitedBytes(scale float64) int64 {
	return max(int64(scale*(1<<30)), 192<<20)
}

// runLimitedLoad loads more data than the memory limit holds.
func runLimitedLoad(r *Run) error {
	return r.loading(r.config(true, loadWriters), r.drawLoad, r.population.Present().Count(), nil)
}

// QuarterBytes returns a memory limit of a quarter of the live data of the
// limited dataset. It has the same minimum.
func QuarterBytes(scale float64) int64 {
	d, _ := findDataset("limited")
	p := NewPopulation(d.Scaled(scale), d.Values)
	const exist = 1 - 1/math.E
	return max(int64(exist*p.UserBytes(p.Count)/4), LimitedBytes(0))
}

// runLimitedRead reads existing keys at random from a store that is mostly not
// in memory.
func runLimitedRead(r *Run) error {
	return r.fromDevice(r.coldGets)
}

// runColdGet is runLimitedRead with less memory.
func runColdGet(r *Run) error { return r.fromDevice(r.coldGets) }

// runColdSeek seeks and reads 10 entries from a store that is mostly not in
// memory.
func runColdSeek(r *Run) error {
	return r.fromDevice(func(s stores.Store, present *Bitset) error {
		if err := r.seeks(s, present, "cold_seek_1", oneReader, r.job.Pace.Phase); err != nil {
			return err
		}
		return r.seeks(s, present, "cold_seek_16", manyReaders, r.job.Pace.Phase)
	})
}

// fromDevice drops all cached pages, opens the store, and measures read.
func (r *Run) fromDevice(read func(s stores.Store, present *Bitset) error) error {
	if err := r.evict(); err != nil {
		return err
	}
	present := r.population.Present()
	c := r.config(false, manyReaders)
	c.Cold = true
	s, err := r.open(c)
	if err != nil {
		return err
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
	return r.close(s)
}

func (r *Run) coldGets(s stores.Store, present *Bitset) error {
	for i, readers := range []int{oneReader, manyReaders} {
		err := r.gets(s, getPhase{
			name: fmt.Sprintf("cold_%d", readers), readers: readers, choose: keyThat(true, present),
			seed: uint64(i + 70), length: r.job.Pace.Phase, every: 1,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
