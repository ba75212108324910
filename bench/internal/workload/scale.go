package workload

import (
	"errors"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

// runScale loads one point of a series of sizes, each key once in a scattered order. Then
// it opens the store anew and reads the point in it.
func runScale(r *Run) error {
	count := r.population.Count
	order := NewPermutation(count)
	scattered := func(s stores.Store, writers int) (*load, error) {
		return r.sequenceLoad(s, writers, count, func(i uint64) (key, version uint64) { return order.At(i), 0 })
	}
	if err := r.loading(r.config(true, loadWriters), scattered, count, nil); err != nil {
		return err
	}
	present := Full(count)
	s, err := r.info.Open(r.config(false, manyReaders))
	if err != nil {
		return err
	}
	if err := r.readScale(s, present); err != nil {
		return errors.Join(err, s.Close())
	}
	if err := s.Close(); err != nil {
		return err
	}
	return r.openTimes(present)
}

func (r *Run) readScale(s stores.Store, present *Bitset) error {
	sampler := measure.StartSampler(r.job.Dir, nil)
	err := r.scans(s, present, scanPhase{name: "scan_whole", whole: true})
	for _, phase := range []getPhase{{name: "get_1", readers: oneReader}, {name: "get_16", readers: manyReaders}} {
		phase.choose, phase.seed, phase.length, phase.every = anyKey(present), 90, r.job.Pace.Phase, latencyEvery
		if err == nil {
			err = r.gets(s, phase)
		}
	}
	peaks, _ := sampler.Stop()
	r.setMemory("read_", peaks)
	return err
}

// scaleOpens is how often the store of a point is opened again.
const scaleOpens = 3

// openTimes records the median time of opening the store.
func (r *Run) openTimes(present *Bitset) error {
	var opens []time.Duration
	for i := range scaleOpens {
		began := time.Now()
		s, err := r.info.Open(r.config(false, oneReader))
		if err != nil {
			return err
		}
		opens = append(opens, time.Since(began))
		if err := errors.Join(r.readOne(s, present, uint64(i)), s.Close()); err != nil {
			return err
		}
	}
	r.setMillis("open_ms", median(opens))
	return nil
}
