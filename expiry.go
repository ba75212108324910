package stoat

import (
	"sync"

	"github.com/stoatdb/stoat/internal/txn"
)

// An expiryHorizon is a time that no open transaction's own time lies before.
// What expired up to it is deleted for everybody. A transaction judges expiry
// by one time from its beginning to its end, so the horizon moves to a moment
// only when all who were reading at that moment have ended.
type expiryHorizon struct {
	mu      sync.Mutex
	ms      uint64
	next    uint64 // becomes ms
	readers *txn.Barrier[reader]
}

// expiredBefore returns the horizon.
func (d *DB) expiredBefore() uint64 {
	h := &d.horizon
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers != nil && h.readers.Passed() {
		h.ms, h.readers = h.next, nil
	}
	if h.readers == nil {
		h.next = d.nowMs()
		h.readers = d.readers.Barrier()
		if h.readers.Passed() {
			h.ms, h.readers = h.next, nil
		}
	}
	return h.ms
}
