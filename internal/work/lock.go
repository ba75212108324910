package work

import "github.com/stoatdb/stoat/internal/lock"

// A Lock is a fair lock: waiters get it in the order in which they came. A
// worker that does one job after the other under it lets others come between.
// A waiter may give up. R is its rank.
type Lock[R lock.Ranked] struct {
	taken chan struct{} // has an element while the lock is held
}

// NewLock returns a free lock.
func NewLock[R lock.Ranked]() *Lock[R] { return &Lock[R]{taken: make(chan struct{}, 1)} }

// Lock waits until the lock is free and takes it.
func (l *Lock[R]) Lock() { l.LockUntil(nil) }

// LockUntil is Lock until end is closed: then it reports false and the caller
// does not have the lock. A nil end is never closed.
func (l *Lock[R]) LockUntil(end <-chan struct{}) bool {
	lock.Acquired[R]()
	select {
	case l.taken <- struct{}{}: // the usual case, and much faster alone
		return true
	default:
	}
	select {
	case l.taken <- struct{}{}:
		return true
	case <-end:
		lock.Released[R]()
		return false
	}
}

// Unlock gives the lock back.
func (l *Lock[R]) Unlock() {
	<-l.taken
	lock.Released[R]()
}
