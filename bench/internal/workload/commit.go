package workload

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

// commitKeys is the number of key numbers that commits draw from, each once, in
// an order that looks random to a store.
const commitKeys = 1 << 23

// runCommit commits single keys durably from 1, 16 and 64 goroutines, and opens
// the store again for each number of goroutines. At the end it checks that every
// acknowledged key is present.
func runCommit(r *Run) error {
	order, present := NewPermutation(commitKeys), NewBitset(commitKeys)
	for _, writers := range []int{1, 16, 64} {
		s, err := r.open(r.config(true, writers))
		if err != nil {
			return err
		}
		first := present.Count()
		n, err := r.commits(s, writers, first, order)
		if err != nil {
			return errors.Join(err, s.Close())
		}
		for i := range n {
			present.Set(order.At(first + i))
		}
		if err := r.close(s); err != nil {
			return err
		}
	}
	r.set("commits", float64(present.Count()))
	s, err := r.open(r.config(true, 1))
	if err != nil {
		return err
	}
	return errors.Join(r.verify(s, present, nil), s.Close())
}

// commits writes the keys of order, beginning at position first, and returns
// how many it wrote.
func (r *Run) commits(s stores.Store, writers int, first uint64, order Permutation) (uint64, error) {
	p := &r.population
	var next atomic.Uint64
	next.Store(first)
	histograms := make([]measure.Histogram, writers)
	before, err := r.startCost()
	if err != nil {
		return 0, err
	}
	ops, elapsed, err := timed(writers, r.job.Pace.Phase, func(w *worker) error {
		b := stores.NewBatch(make([]byte, 0, KeySize+p.Values.Size))
		var text Key
		for w.running() {
			number := order.At(next.Add(1) - 1)
			b.Reset()
			p.Keys.Put(&text, number)
			p.Values.Fill(b.Reserve(text[:], p.Values.Size), number, 0)
			began := time.Now()
			if err := s.Apply(b); err != nil {
				return fmt.Errorf("commit key %d: %w", number, err)
			}
			histograms[w.index].Record(time.Since(began))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for i := 1; i < writers; i++ {
		histograms[0].Merge(&histograms[i])
	}
	name := fmt.Sprintf("commit_%d", writers)
	r.set(name+"_per_s", float64(ops)/elapsed.Seconds())
	r.setQuantiles(name, "us", &histograms[0])
	return ops, before.note(name+"_", p.UserBytes(ops))
}
