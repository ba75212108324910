package stoat

import "sync/atomic"

// A turn is a lock that nobody has to wait for longer than he likes. Those who
// wait get it in the order in which they came, so that who does one job after the
// other under it lets others come in between.
type turn struct {
	taken   chan struct{} // has something in it while somebody holds the lock
	waiting atomic.Int32  // how many want it
}

func (t *turn) init() { t.taken = make(chan struct{}, 1) }

// Lock waits until nobody holds t.
func (t *turn) Lock() { t.lockBefore(nil) }

// Unlock lets the next one have t.
func (t *turn) Unlock() { <-t.taken }

// lockBefore is Lock until end is closed: then it reports false, and t is not
// held. A nil end is never closed.
func (t *turn) lockBefore(end <-chan struct{}) bool {
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	select {
	case t.taken <- struct{}{}:
		return true
	case <-end:
		return false
	}
}

// awaited reports whether somebody waits for t.
func (t *turn) awaited() bool { return t.waiting.Load() > 0 }
