//go:build invariants

package lock

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
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
	note(rank, name)
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

// held has the locks of each goroutine, the first taken first.
var held = struct {
	sync.Mutex
	by map[int64][]holding
}{by: map[int64][]holding{}}

// Acquired notes that this goroutine takes a lock of rank R, and panics if it
// holds a lock of the same or a higher rank.
func Acquired[R Ranked]() {
	var r R
	rank, name := r.Rank()
	id := goroutine()
	held.Lock()
	defer held.Unlock()
	for _, h := range held.by[id] {
		if h.rank >= rank {
			panic(fmt.Sprintf("lock order: %s (rank %d) is taken while %s (rank %d) is held", name, rank, h.name, h.rank))
		}
	}
	held.by[id] = append(held.by[id], holding{rank, name})
}

// note notes a lock without a check.
func note(rank int, name string) {
	id := goroutine()
	held.Lock()
	defer held.Unlock()
	held.by[id] = append(held.by[id], holding{rank, name})
}

// Released notes that this goroutine gave a lock of rank R back.
func Released[R Ranked]() {
	var r R
	rank, name := r.Rank()
	id := goroutine()
	held.Lock()
	defer held.Unlock()
	locks := held.by[id]
	for i := len(locks) - 1; i >= 0; i-- {
		if locks[i].rank == rank {
			locks = append(locks[:i], locks[i+1:]...)
			if held.by[id] = locks; len(locks) == 0 {
				delete(held.by, id)
			}
			return
		}
	}
	panic(fmt.Sprintf("lock order: %s is given back by a goroutine that does not hold it", name))
}

// goroutine returns the number of this goroutine, from its stack trace.
func goroutine() int64 {
	var buf [64]byte
	text := buf[:runtime.Stack(buf[:], false)]
	text = bytes.TrimPrefix(text, []byte("goroutine "))
	if end := bytes.IndexByte(text, ' '); end >= 0 {
		text = text[:end]
	}
	id, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		panic("lock order: no goroutine number in " + string(buf[:]))
	}
	return id
}
