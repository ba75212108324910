package event

import (
	"sync"

	"github.com/stoatdb/stoat/internal/lock"
)

// queueMax is how many events may wait for a callback. Only a callback that hangs
// lets the queue grow so far. The queue counts and drops further events.
const queueMax = 4096

// A Queue delivers events one at a time and in order, on its own goroutine. The
// emitter may hold locks, and does not wait. The zero Queue is empty.
type Queue[E any] struct {
	mu lock.Mutex[lock.Events]
	// Guarded by mu.
	waiting    []E
	delivering bool
	ended      bool // the database is closed or will be at once
	dropped    uint64
	idle       *sync.Cond // signals that delivering became false
}

// Emit queues an event for tell, which is the same in each call. After End it drops the
// event, which the end of a late transaction may still emit.
func (q *Queue[E]) Emit(e E, tell func(E)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	if len(q.waiting) >= queueMax {
		q.dropped++
		return
	}
	q.waiting = append(q.waiting, e)
	if !q.delivering {
		q.delivering = true
		go q.deliver(nil, tell)
	}
}

// deliver delivers a batch, and then events until the queue is empty. One goroutine at a time
// does so. It ends by itself, and End waits for it. If tell ends it, another one goes on.
func (q *Queue[E]) deliver(batch []E, tell func(E)) {
	empty := false
	defer func() {
		if !empty {
			go q.deliver(batch, tell)
		}
	}()
	for {
		for len(batch) > 0 {
			e := batch[0]
			batch = batch[1:]
			tell(e)
		}
		if batch = q.take(); len(batch) == 0 {
			empty = true
			return
		}
	}
}

// take takes all events. If there are none, the delivery ends.
func (q *Queue[E]) take() []E {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.waiting
	q.waiting = nil
	if len(batch) == 0 {
		q.delivering = false
		if q.idle != nil {
			q.idle.Broadcast()
		}
	}
	return batch
}

// Lost returns how many events were dropped.
func (q *Queue[E]) Lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// End waits until all events have been delivered. The queue drops later events.
func (q *Queue[E]) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.delivering && q.idle == nil {
		q.idle = sync.NewCond(&q.mu)
	}
	for q.delivering {
		q.idle.Wait()
	}
	q.ended = true
}
