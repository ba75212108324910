package state

import (
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/readers"
)

// A horizon is the expiry horizon: a time that is not after the time of any open
// transaction. Jobs may drop what expired up to it. A transaction judges expiry
// by one time from its begin to its end. So the horizon moves to a moment only
// when all readers of that moment have ended.
type horizon struct {
	mu lock.Mutex[lock.Horizon]
	// Guarded by mu: the horizon, and the time that it moves to when readers have
	// passed.
	ms, next uint64
	readers  *readers.Barrier[Reader]
}

// Horizon returns the expiry horizon, in milliseconds of Unix time, and moves it
// on if it can.
func (s *Store) Horizon() uint64 {
	h := &s.horizon
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers != nil && h.readers.Passed() {
		h.ms, h.readers = h.next, nil
	}
	if h.readers == nil {
		h.next = s.Now()
		h.readers = s.readers.Barrier()
		if h.readers.Passed() {
			h.ms, h.readers = h.next, nil
		}
	}
	return h.ms
}
