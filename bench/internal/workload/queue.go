package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

// queuePopped are the numbers of entries popped before the clock starts, at full
// scale.
var queuePopped = []uint64{0, 10_000, 100_000}

const (
	queueBatch   = 100  // entries that the appender writes at once
	queueBacklog = 2000 // the appender waits while the queue is longer
)

// runQueue pops the first key while another goroutine appends keys, without
// syncs. Each number of keys popped before has a database of its own.
func runQueue(r *Run) error {
	dir := r.job.Dir
	defer func() { r.job.Dir = dir }()
	for _, popped := range queuePopped {
		r.job.Dir = filepath.Join(dir, strconv.FormatUint(popped, 10))
		if err := os.MkdirAll(r.job.Dir, 0o755); err != nil {
			return err
		}
		// Only one goroutine writes single keys, so the store shall not wait for
		// others to join.
		c := r.unsynced(1)
		c.Beside = true
		s, err := r.open(c)
		if err != nil {
			return err
		}
		q := &queue{run: r, store: s}
		q.buffer = stores.NewBatch(make([]byte, 0, queueBatch*(KeySize+r.population.Values.Size)))
		if err := q.measure(fmt.Sprintf("queue_%d", popped), uint64(float64(popped)*min(r.job.Scale, 1))); err != nil {
			return errors.Join(err, s.Close())
		}
		if err := r.close(s); err != nil {
			return err
		}
	}
	return nil
}

// A queue has the entries with the numbers from head to next. One goroutine
// appends, one pops.
type queue struct {
	run        *Run
	store      stores.Store
	buffer     *stores.Batch // of the appender
	head, next atomic.Uint64
}

func (q *queue) measure(name string, popped uint64) error {
	if err := q.prepare(popped); err != nil {
		return err
	}
	var stop atomic.Bool
	var appended error
	var appender sync.WaitGroup
	appender.Go(func() {
		for !stop.Load() && appended == nil {
			if q.next.Load()-q.head.Load() > queueBacklog {
				time.Sleep(50 * time.Microsecond)
				continue
			}
			appended = q.append()
		}
	})
	pop, done, err := q.popper()
	var h measure.Histogram
	var pops uint64
	var elapsed time.Duration
	if err == nil {
		pops, elapsed, err = timed(1, q.run.job.Pace.Phase, func(w *worker) error { return q.popAll(w, pop, &h) })
		err = errors.Join(err, done())
	}
	stop.Store(true)
	appender.Wait()
	if err = errors.Join(err, appended); err != nil {
		return err
	}
	q.run.set(name+"_per_s", float64(pops)/elapsed.Seconds())
	q.run.setQuantiles(name, "us", &h)
	return nil
}

// prepare appends entries and deletes the first ones, and leaves a backlog.
func (q *queue) prepare(popped uint64) error {
	for q.next.Load() < popped+queueBacklog {
		if err := q.append(); err != nil {
			return err
		}
	}
	for q.head.Load() < popped {
		q.buffer.Reset()
		var key Key
		for range min(queueBatch, popped-q.head.Load()) {
			q.run.population.Keys.Put(&key, q.head.Load())
			q.buffer.Delete(key[:])
			q.head.Add(1)
		}
		if err := q.store.Apply(q.buffer); err != nil {
			return err
		}
	}
	return nil
}

// append writes the next entries.
func (q *queue) append() error {
	p, first := &q.run.population, q.next.Load()
	q.buffer.Reset()
	var key Key
	for n := first; n < first+queueBatch; n++ {
		p.Keys.Put(&key, n)
		p.Values.Fill(q.buffer.Reserve(key[:], p.Values.Size), n, 0)
	}
	if err := q.store.Apply(q.buffer); err != nil {
		return err
	}
	q.next.Add(queueBatch)
	return nil
}

// popAll pops until the phase ends. It waits while the appender is behind; that
// time counts for all stores.
func (q *queue) popAll(w *worker, pop func() error, h *measure.Histogram) error {
	for w.running() {
		for q.head.Load() == q.next.Load() {
			if w.stop.Load() {
				w.ops--
				return nil
			}
			time.Sleep(10 * time.Microsecond)
		}
		began := time.Now()
		if err := pop(); err != nil {
			return err
		}
		h.Record(time.Since(began))
		q.head.Add(1)
	}
	return nil
}

// check returns an error unless key and value are the first entry of the queue.
func (q *queue) check(key, value []byte) error {
	p, want := &q.run.population, q.head.Load()
	if number, ok := p.Keys.Number(key); !ok || number != want {
		return fmt.Errorf("%w: the queue begins with key %q, want number %d", ErrWrong, key, want)
	}
	version, err := p.Values.Check(value, want)
	if err == nil && version != 0 {
		err = fmt.Errorf("%w: entry %d has version %d", ErrWrong, want, version)
	}
	return err
}

// popper returns the function that pops: a transaction where the store has them,
// otherwise a scan and a write. done releases what it uses.
func (q *queue) popper() (pop func() error, done func() error, err error) {
	if t, ok := q.store.(stores.Transactor); ok {
		return func() error { return q.popIn(t) }, func() error { return nil }, nil
	}
	reader, err := q.store.NewReader()
	if err != nil {
		return nil, nil, err
	}
	b := stores.NewBatch(make([]byte, 0, KeySize))
	first := func(key, value []byte) error {
		b.Delete(key)
		return q.check(key, value)
	}
	pop = func() error {
		b.Reset()
		if err := reader.Scan(stores.ScanOptions{Limit: 1}, first); err != nil {
			return err
		}
		if b.Len() == 0 {
			return q.check(nil, nil)
		}
		return q.store.Apply(b)
	}
	return pop, reader.Close, nil
}

// popIn pops in a transaction.
func (q *queue) popIn(t stores.Transactor) error {
	_, err := t.Transact(func(tx stores.Txn) error {
		return tx.First(func(key, value []byte) error {
			if err := q.check(key, value); err != nil {
				return err
			}
			return tx.Delete(key)
		})
	})
	return err
}
