package work

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat/internal/lock"
)

func TestLock_WaitersGetItInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLock[lock.Compacting]()
		l.Lock()
		var order []int
		for i := range 8 {
			go func() {
				l.Lock()
				order = append(order, i)
				l.Unlock()
			}()
			synctest.Wait() // it waits for the lock
		}
		l.Unlock()
		// A worker that takes the lock again comes after those that wait.
		l.Lock()
		order = append(order, 8)
		l.Unlock()
		synctest.Wait()
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
	})
}

func TestLock_LockUntilGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLock[lock.Compacting]()
		l.Lock()
		end, got := make(chan struct{}), make(chan bool, 1)
		go func() { got <- l.LockUntil(end) }()
		synctest.Wait()
		close(end)
		if <-got {
			t.Fatal("a waiter that gave up has the lock")
		}
		l.Unlock()
		if !l.LockUntil(nil) { // it is free: the waiter left nothing behind
			t.Error("a free lock is not given")
		}
		l.Unlock()
	})
}

// With invariants, a waiter that gave up does not count as a holder.
func TestLock_GivingUpHoldsNoRank(t *testing.T) {
	t.Parallel()
	l, lower := NewLock[lock.Collecting](), NewLock[lock.Compacting]()
	l.taken <- struct{}{} // another goroutine holds it
	end := make(chan struct{})
	close(end)
	if l.LockUntil(end) {
		t.Fatal("a waiter that gave up has the lock")
	}
	lower.Lock()
	defer lower.Unlock()
}
