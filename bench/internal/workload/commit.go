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
// the store again for each number of goroutines. Before each it turns the log over.
// At the end it checks that every acknowledged key is present.
func runCommit(r *Run) error {
	order, present := NewPermutation(commitKeys), NewBitset(commitKeys)
	for _, writers := range []int{1, 16, 64} {
		s, err := r.open(r.config(true, writers))
		if err != nil {
			return err
		}
		if err := r.turnLog(s); err != nil {
			return errors.Join(err, s.Close())
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

const (
	// turnedMemtables is how many memtables turnLog writes. The first memtables of Pebble
	// are small, and so are their logs. It reuses up to five logs, oldest first. After eight
	// memtables all of them have the full size, so that a commit overwrites.
	turnedMemtables = 8

	// turnedKeys is the number of keys that turnLog writes again and again.
	turnedKeys = 5000
)

// turnLog fills some memtables, deletes what it wrote, and waits until the store is
// settled. A store that reuses its log files has none to reuse before its first flushes,
// so it would be measured in its start-up.
func (r *Run) turnLog(s stores.Store) error {
	size := r.population.Values.Size
	entry := KeySize + size
	memtables := turnedMemtables * min(r.job.Scale, 1) * float64(r.config(true, 1).MemtableBytes)
	b := stores.NewBatch(make([]byte, 0, turnedKeys*entry))
	rounds := int(memtables) / (turnedKeys * entry)
	for round := range rounds + 1 {
		b.Reset()
		for i := range turnedKeys {
			key := fmt.Appendf(nil, "turned-%0*d", KeySize-len("turned-"), i)
			if round == rounds {
				b.Delete(key)
			} else {
				r.population.Values.Fill(b.Reserve(key, size), uint64(i), uint64(round))
			}
		}
		if err := s.Apply(b); err != nil {
			return fmt.Errorf("turn the log over: %w", err)
		}
	}
	measure.WaitIdle(r.job.Dir, r.job.Pace.Quiet, r.job.Pace.Limit)
	return nil
}
