package stoat

// A turn is a lock that nobody has to wait for longer than he likes. Those who
// wait get it in the order in which they came, so that who does one job after the
// other under it lets others come in between.
type turn struct {
	taken chan struct{} // has something in it while somebody holds the lock
}

func (t *turn) init() { t.taken = make(chan struct{}, 1) }

// Lock waits until nobody holds t.
func (t *turn) Lock() { t.taken <- struct{}{} }

// Unlock lets the next one have t.
func (t *turn) Unlock() { <-t.taken }

// lockBefore is Lock until end is closed: then it reports false, and t is not
// held. A nil end is never closed.
func (t *turn) lockBefore(end <-chan struct{}) bool {
	select {
	case t.taken <- struct{}{}:
		return true
	case <-end:
		return false
	}
}
