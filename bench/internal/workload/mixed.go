package workload

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

// mixedWorkers is the number of goroutines that read and write.
const mixedWorkers = 4

func runMixed95(r *Run) error { return runMixed(r, 95, 1) }
func runMixed50(r *Run) error { return runMixed(r, 50, 2) }

// A mixture reads and writes single keys with a Zipf distribution and without
// syncs.
//
// Only one goroutine writes a key, in ascending versions. A version has the
// epoch in its upper half and a count in its lower half. A read must return a
// version between the last one acknowledged before the read began and the last
// one begun before the read ended.
type mixture struct {
	run      *Run
	store    stores.Store
	epoch    uint64
	part     uint64 // 0 warms up, 1 is measured; each draws different keys
	reads    uint64 // reads per 100 operations
	zipf     *zipf
	present  *Bitset // before this epoch's first write
	begun    []atomic.Uint32
	done     []atomic.Uint32
	readTime [mixedWorkers]measure.Histogram
	putTime  [mixedWorkers]measure.Histogram
}

// runMixed begins with all files in the page cache, and reads all entries once, so that the
// block caches are filled. What other stores read before may have evicted some files.
func runMixed(r *Run, reads, epoch uint64) error {
	if err := measure.ReadFiles(r.job.Dir); err != nil {
		return err
	}
	present := r.population.Present()
	s, err := r.open(r.unsynced(mixedWorkers))
	if err != nil {
		return err
	}
	m := &mixture{
		run: r, store: s, epoch: epoch, reads: reads, zipf: newZipf(r.population.Count), present: present,
		begun: make([]atomic.Uint32, r.population.Count), done: make([]atomic.Uint32, r.population.Count),
	}
	r.harnessBytes += int64(8 * r.population.Count)
	if err := m.measure(); err != nil {
		return errors.Join(err, s.Close())
	}
	return r.close(s)
}

func (m *mixture) measure() error {
	r := m.run
	if err := m.readAll(); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if _, _, err := timed(mixedWorkers, r.job.Pace.Warm, m.work); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	m.part++
	m.readTime, m.putTime = [mixedWorkers]measure.Histogram{}, [mixedWorkers]measure.Histogram{}
	before := measure.ProcessUsage()
	sampler := measure.StartSampler(r.job.Dir, nil)
	ops, elapsed, err := timed(mixedWorkers, r.job.Pace.Phase, m.work)
	peaks, _ := sampler.Stop()
	if err != nil {
		return err
	}
	r.set("mixed_get_p999_slowest_us", slowestQuantile(m.readTime[:], 0.999))
	r.set("mixed_put_p999_slowest_us", slowestQuantile(m.putTime[:], 0.999))
	for i := 1; i < mixedWorkers; i++ {
		m.readTime[0].Merge(&m.readTime[i])
		m.putTime[0].Merge(&m.putTime[i])
	}
	r.set("mixed_per_s", float64(ops)/elapsed.Seconds())
	r.setQuantiles("mixed_get", "us", &m.readTime[0])
	r.setQuantiles("mixed_put", "us", &m.putTime[0])
	r.setUsage("", before, r.population.UserBytes(m.putTime[0].Count()))
	r.setMemory("", peaks)
	return nil
}

// readAll reads all entries once. An earlier mixture may have written any of them, so it
// checks no version.
func (m *mixture) readAll() error {
	reader, err := m.store.NewReader()
	if err != nil {
		return err
	}
	p := &m.run.population
	err = reader.Scan(stores.ScanOptions{}, func(key, value []byte) error {
		number, ok := p.Keys.Number(key)
		if !ok {
			return fmt.Errorf("%w: key %q was never written", ErrWrong, key)
		}
		_, err := p.Values.Check(value, number)
		return err
	})
	return errors.Join(err, reader.Close())
}

// slowestQuantile returns the highest of the goroutines' quantiles, in
// microseconds. A quantile over all goroutines would hide that a store starves
// one of them.
func slowestQuantile(histograms []measure.Histogram, q float64) float64 {
	var slowest time.Duration
	for i := range histograms {
		slowest = max(slowest, histograms[i].Quantile(q))
	}
	return float64(slowest) / float64(time.Microsecond)
}

// work is one goroutine of the mix.
func (m *mixture) work(w *worker) error {
	p, err := m.run.newProbe(m.store, false)
	if err != nil {
		return err
	}
	b := stores.NewBatch(make([]byte, 0, KeySize+m.run.population.Values.Size))
	rng := newRandom(m.epoch<<32 | m.part<<16 | uint64(w.index))
	for w.running() {
		number := m.zipf.key(rng)
		if rng.below(100) < m.reads {
			err = m.get(p, number, &m.readTime[w.index])
		} else {
			err = m.put(b, m.owned(number, w.index), &m.putTime[w.index])
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, p.close())
}

// owned returns a key near number that this worker writes.
func (m *mixture) owned(number uint64, worker int) uint64 {
	number = number - number%mixedWorkers + uint64(worker)
	if number >= m.zipf.n {
		number -= mixedWorkers
	}
	return number
}

func (m *mixture) put(b *stores.Batch, number uint64, h *measure.Histogram) error {
	p := &m.run.population
	count := m.begun[number].Add(1)
	var text Key
	p.Keys.Put(&text, number)
	b.Reset()
	p.Values.Fill(b.Reserve(text[:], p.Values.Size), number, m.epoch<<32|uint64(count))
	began := time.Now()
	if err := m.store.Apply(b); err != nil {
		return fmt.Errorf("write key %d: %w", number, err)
	}
	h.Record(time.Since(began))
	m.done[number].Store(count)
	return nil
}

func (m *mixture) get(p *probe, number uint64, h *measure.Histogram) error {
	least := m.done[number].Load()
	began := time.Now()
	version, found, err := p.get(number)
	if err != nil {
		return err
	}
	h.Record(time.Since(began))
	return m.judge(number, version, found, least, m.begun[number].Load())
}

// judge returns an error if an answer was not possible at any time between the
// start and the end of the read.
func (m *mixture) judge(number, version uint64, found bool, least, most uint32) error {
	epoch, count := version>>32, uint32(version&math.MaxUint32)
	switch {
	case !found && least == 0 && !m.present.Has(number):
		return nil
	case !found:
		return fmt.Errorf("%w: key %d is not found after version %d was acknowledged", ErrWrong, number, least)
	case epoch == m.epoch && least <= count && count <= most:
		return nil
	case epoch < m.epoch && least == 0:
		return nil
	}
	return fmt.Errorf("%w: key %d has version %d of epoch %d, want %d to %d of epoch %d",
		ErrWrong, number, count, epoch, least, most, m.epoch)
}
