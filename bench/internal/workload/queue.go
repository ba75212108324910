package workload

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

const (
	// queueKeys bounds the numbers of the keys of a queue.
	queueKeys = 1 << 26
	// queueBatch is how many keys are appended together.
	queueBatch = 100
	// queueBacklog is how many keys wait in the queue, about.
	queueBacklog = 2000
	// queueDeleted is how many keys are appended and deleted before the second
	// measurement.
	queueDeleted = 100_000
)

// runQueue pops the first key again and again, without syncs, while one goroutine
// appends. A pop is a scan of one key and a batch that deletes it. The second
// measurement has many deleted keys before the head. At the end the store must hold
// exactly the keys between head and tail.
func runQueue(r *Run) error {
	s, err := r.open(r.config(false, 2))
	if err != nil {
		return err
	}
	q := &queue{run: r, store: s, batch: stores.NewBatch(nil)}
	err = q.measure("queue_new")
	for deleted := 0; deleted < queueDeleted && err == nil; deleted += queueBatch {
		if err = q.append(q.batch); err == nil {
			err = q.deleteFirst()
		}
	}
	if err == nil {
		err = q.measure("queue_old")
	}
	if err == nil {
		err = q.verify()
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return r.close(s)
}

// A queue holds the keys from head to tail (exclusive).
type queue struct {
	run        *Run
	store      stores.Store
	batch      *stores.Batch // of the goroutine that pops
	head, tail atomic.Uint64
}

// append appends queueBatch keys.
func (q *queue) append(b *stores.Batch) error {
	p, tail := &q.run.population, q.tail.Load()
	var text Key
	b.Reset()
	for n := tail; n < tail+queueBatch; n++ {
		p.Keys.Put(&text, n)
		p.Values.Fill(b.Reserve(text[:], p.Values.Size), n, 0)
	}
	if err := q.store.Apply(b); err != nil {
		return fmt.Errorf("append key %d: %w", tail, err)
	}
	q.tail.Store(tail + queueBatch)
	return nil
}

// deleteFirst deletes queueBatch keys without reading them.
func (q *queue) deleteFirst() error {
	head := q.head.Load()
	var text Key
	q.batch.Reset()
	for n := head; n < head+queueBatch; n++ {
		q.run.population.Keys.Put(&text, n)
		q.batch.Delete(text[:])
	}
	q.head.Store(head + queueBatch)
	return q.store.Apply(q.batch)
}

// measure pops from one goroutine and appends from another.
func (q *queue) measure(name string) error {
	reader, err := q.store.NewReader()
	if err != nil {
		return fmt.Errorf("new reader: %w", err)
	}
	var times measure.Histogram
	popped := uint64(0)
	_, elapsed, err := timed(2, q.run.job.Pace.Phase, func(w *worker) error {
		if w.index > 0 {
			return q.appendWhile(w)
		}
		for w.running() && q.head.Load() < queueKeys-1 {
			began := time.Now()
			ok, err := q.pop(reader)
			if err != nil {
				return err
			}
			if ok {
				popped++
				times.Record(time.Since(began))
			}
		}
		return nil
	})
	if err := errors.Join(err, reader.Close()); err != nil {
		return err
	}
	q.run.set(name+"_per_s", float64(popped)/elapsed.Seconds())
	q.run.setQuantiles(name, "us", &times)
	return nil
}

// appendWhile keeps a backlog while the phase lasts.
func (q *queue) appendWhile(w *worker) error {
	b := stores.NewBatch(nil)
	for w.running() && q.tail.Load() < queueKeys-queueBatch {
		if q.tail.Load()-q.head.Load() > queueBacklog {
			time.Sleep(50 * time.Microsecond)
			continue
		}
		if err := q.append(b); err != nil {
			return err
		}
	}
	return nil
}

// pop deletes the first key, which must be the head. It reports false if the queue is
// empty.
func (q *queue) pop(reader stores.Reader) (found bool, err error) {
	q.batch.Reset()
	err = reader.Scan(stores.ScanOptions{Limit: 1, KeysOnly: true}, func(key, _ []byte) error {
		number, ok := q.run.population.Keys.Number(key)
		if head := q.head.Load(); !ok || number != head {
			return fmt.Errorf("%w: the first key is %q, want number %d", ErrWrong, key, head)
		}
		found = true
		q.batch.Delete(key)
		return nil
	})
	if !found || err != nil {
		return false, err
	}
	q.head.Add(1)
	return true, q.store.Apply(q.batch)
}

// verify demands exactly the keys of the queue.
func (q *queue) verify() error {
	present := NewBitset(q.tail.Load())
	for n := q.head.Load(); n < q.tail.Load(); n++ {
		present.Set(n)
	}
	return q.run.verify(q.store, present, nil)
}
