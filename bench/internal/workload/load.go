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

// loadWriters is the number of goroutines of a load.
const loadWriters = 8

// A load writes batches from several goroutines.
type load struct {
	store   stores.Store
	writers int
	batches uint64

	// fill puts the operations of one batch of a writer into b.
	fill func(b *stores.Batch, writer int, batch uint64)

	buffers []*stores.Batch // one per writer
	written atomic.Uint64   // operations acknowledged
}

// newLoad prepares the writers' buffers for batches of ops operations.
func (r *Run) newLoad(s stores.Store, writers int, ops uint64) (*load, error) {
	l := &load{store: s, writers: writers}
	for range writers {
		buf, err := measure.OffHeap(int(ops) * (KeySize + r.population.Values.Size))
		if err != nil {
			return nil, fmt.Errorf("allocate a batch: %w", err)
		}
		r.harnessBytes += int64(len(buf))
		l.buffers = append(l.buffers, stores.NewBatch(buf))
	}
	return l, nil
}

// run writes all batches and returns how long each took. Each writer takes the
// next batch when it is free, so no writer waits for the slowest.
func (l *load) run() (*measure.Histogram, error) {
	var next atomic.Uint64
	var wg sync.WaitGroup
	histograms := make([]measure.Histogram, l.writers)
	errs := make([]error, l.writers)
	for w := range l.writers {
		wg.Go(func() {
			for batch := next.Add(1) - 1; batch < l.batches; batch = next.Add(1) - 1 {
				if errs[w] = l.writeBatch(w, batch, &histograms[w]); errs[w] != nil {
					next.Store(l.batches)
					return
				}
			}
		})
	}
	wg.Wait()
	for w := 1; w < l.writers; w++ {
		histograms[0].Merge(&histograms[w])
	}
	return &histograms[0], errors.Join(errs...)
}

func (l *load) writeBatch(w int, batch uint64, h *measure.Histogram) error {
	b := l.buffers[w]
	b.Reset()
	l.fill(b, w, batch)
	began := time.Now()
	if err := l.store.Apply(b); err != nil {
		return fmt.Errorf("write batch %d: %w", batch, err)
	}
	h.Record(time.Since(began))
	l.written.Add(uint64(b.Len()))
	return nil
}

// ranges calls op for each operation of a batch. Each batch has ops operations;
// the last one ends at total.
func ranges(batch, ops, total uint64, op func(i uint64)) {
	for i := batch * ops; i < min((batch+1)*ops, total); i++ {
		op(i)
	}
}

// measured runs l, and records rate, latencies, peaks and usage under prefix.
func (r *Run) measured(l *load, prefix string) (time.Duration, error) {
	before := measure.ProcessUsage()
	sampler := measure.StartSampler(r.job.Dir, func() float64 { return float64(l.written.Load()) })
	began := time.Now()
	latency, err := l.run()
	took := time.Since(began)
	peaks, curve := sampler.Stop()
	if err != nil {
		return 0, err
	}
	written := l.written.Load()
	r.set(prefix+"s", took.Seconds())
	r.set(prefix+"keys_per_s", float64(written)/took.Seconds())
	r.set(prefix+"mb_per_s", r.population.UserBytes(written)/took.Seconds()/megabyte)
	r.setQuantiles(prefix+"batch", "ms", latency)
	r.setUsage(prefix, before, r.population.UserBytes(written))
	r.setMemory(prefix, peaks)
	r.set(prefix+"peak_space_mb", float64(peaks.SpaceBytes)/megabyte)
	r.curve(prefix+"keys", curve)
	return took, nil
}

func (r *Run) curve(name string, points []measure.Point) {
	if r.result.Curves == nil {
		r.result.Curves = map[string][]measure.Point{}
	}
	r.result.Curves[name] = points
}

// drawLoad returns the load of the population's draws in random order, with
// version 0 for all values.
func (r *Run) drawLoad(s stores.Store, writers int) (*load, error) {
	p := &r.population
	return r.sequenceLoad(s, writers, p.Count, func(i uint64) (key, version uint64) { return p.Draw(i), 0 })
}

// sequenceLoad returns a load of count entries. entry returns the key and the
// version of the i-th.
func (r *Run) sequenceLoad(s stores.Store, writers int, count uint64, entry func(i uint64) (key, version uint64)) (*load, error) {
	p := &r.population
	ops := batchOps(p.Count)
	l, err := r.newLoad(s, writers, ops)
	if err != nil {
		return nil, err
	}
	l.batches = (count + ops - 1) / ops
	l.fill = func(b *stores.Batch, _ int, batch uint64) {
		var text Key
		ranges(batch, ops, count, func(i uint64) {
			key, version := entry(i)
			p.Keys.Put(&text, key)
			p.Values.Fill(b.Reserve(text[:], p.Values.Size), key, version)
		})
	}
	return l, nil
}
