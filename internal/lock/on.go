//go:build invariants

package lock

import (
	"fmt"
	"sync"
)

// A Mutex is a sync.Mutex of the rank R that checks the order in which locks
// are taken. The zero value is unlocked.
type Mutex[R Ranked] struct{ mu sync.Mutex }

// Lock locks m. It panics if the goroutine holds a lock of the same or a
// higher rank.
func (m *Mutex[R]) Lock() {
	Acquired[R]()
	m.mu.Lock()
}

// TryLock locks m if it is free. It cannot deadlock, so it checks no order.
func (m *Mutex[R]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	var r R
	rank, name := r.Rank()
	own := ofGoroutine()
	own.Lock()
	defer own.Unlock()
	own.add(holding{rank, name})
	return true
}

// Unlock unlocks m.
func (m *Mutex[R]) Unlock() {
	m.mu.Unlock()
	Released[R]()
}

// A holding is one lock that a goroutine holds.
type holding struct {
	rank int
	name string
}

// A shard has the locks that some goroutines hold, in the order in which each goroutine took
// its locks.
type shard struct {
	sync.Mutex
	by map[uintptr][]holding
}

// A view is a shard as one goroutine sees it.
type view struct {
	*shard
	id uintptr
}

const shards = 64

var held = func() (all [shards]*shard) {
	for i := range all {
		all[i] = &shard{by: map[uintptr][]holding{}}
	}
	return all
}()

func ofGoroutine() view {
	id := goroutine()
	return view{held[id>>8%shards], id}
}

func (v view) add(h holding) { v.by[v.id] = append(v.by[v.id], h) }

// Acquired notes that this goroutine takes a lock of rank R, and panics if it
// holds a lock of the same or a higher rank.
func Acquired[R Ranked]() {
	var r R
	rank, name := r.Rank()
	own := ofGoroutine()
	own.Lock()
	defer own.Unlock()
	for _, h := range own.by[own.id] {
		if h.rank >= rank {
			panic(fmt.Sprintf("lock order: %s (rank %d) is taken while %s (rank %d) is held", name, rank, h.name, h.rank))
		}
	}
	own.add(holding{rank, name})
}

// Released notes that this goroutine gave a lock of rank R back.
func Released[R Ranked]() {
	var r R
	rank, name := r.Rank()
	own := ofGoroutine()
	own.Lock()
	defer own.Unlock()
	locks := own.by[own.id]
	for i := len(locks) - 1; i >= 0; i-- {
		if locks[i].rank == rank {
			locks = append(locks[:i], locks[i+1:]...)
			if own.by[own.id] = locks; len(locks) == 0 {
				delete(own.by, own.id)
			}
			return
		}
	}
	panic(fmt.Sprintf("lock order: %s is given back by a goroutine that does not hold it", name))
}
