package workload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

// counterWorkers is the number of goroutines that increment one counter.
const counterWorkers = 16

// runCounter increments one counter from many goroutines. Each increment is a
// durable transaction that reads and writes, and runs again after a conflict. In
// the end the counter must equal the number of increments.
func runCounter(r *Run) error {
	s, err := r.open(r.config(true, counterWorkers))
	if err != nil {
		return err
	}
	if err := r.count(s); err != nil {
		return errors.Join(err, s.Close())
	}
	return r.close(s)
}

func (r *Run) count(s stores.Store) error {
	t, ok := s.(stores.Transactor)
	if !ok {
		return fmt.Errorf("%w: %s", errSkipped, NotBound)
	}
	var key Key
	r.population.Keys.Put(&key, 0)
	var conflicts atomic.Uint64
	histograms := make([]measure.Histogram, counterWorkers)
	before := measure.ProcessUsage()
	ops, elapsed, err := timed(counterWorkers, r.job.Pace.Phase, func(w *worker) error {
		last := uint64(0)
		for w.running() {
			began := time.Now()
			value, lost, err := increment(t, key[:])
			if err != nil {
				return err
			}
			histograms[w.index].Record(time.Since(began))
			conflicts.Add(uint64(lost))
			if value <= last {
				return fmt.Errorf("%w: an increment of %d yields %d", ErrWrong, last, value)
			}
			last = value
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := 1; i < counterWorkers; i++ {
		histograms[0].Merge(&histograms[i])
	}
	r.set("counter_per_s", float64(ops)/elapsed.Seconds())
	r.set("counter_conflicts", float64(conflicts.Load())/float64(max(ops, 1)))
	r.setQuantiles("counter", "us", &histograms[0])
	r.setUsage("", before, 0)
	return r.wantCounter(s, key[:], ops)
}

// increment adds one to the counter. It returns the counter's new value and the
// number of conflicts.
func increment(t stores.Transactor, key []byte) (value uint64, conflicts int, err error) {
	conflicts, err = t.Transact(func(tx stores.Txn) error {
		old, err := tx.Get(key)
		if err != nil {
			return err
		}
		value = 1
		if old != nil {
			value = binary.BigEndian.Uint64(old) + 1
		}
		return tx.Set(key, binary.BigEndian.AppendUint64(nil, value))
	})
	return value, conflicts, err
}

// wantCounter returns an error unless the counter has the value want.
func (r *Run) wantCounter(s stores.Store, key []byte, want uint64) error {
	reader, err := s.NewReader()
	if err != nil {
		return err
	}
	var got uint64
	_, err = reader.Get(key, func(value []byte) error {
		got = binary.BigEndian.Uint64(value)
		return nil
	})
	if err = errors.Join(err, reader.Close()); err == nil && got != want {
		err = fmt.Errorf("%w: the counter is %d after %d increments", ErrWrong, got, want)
	}
	return err
}
