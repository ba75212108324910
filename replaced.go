package stoat

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
)

// replacedSamples is about of how many of the values of a flush it is looked up
// whether they replace others. One look costs a microsecond, or a read of the
// device.
const replacedSamples = 64

// A replacedSample estimates which part of the values that a flush puts apart
// replaces others: the merge that finds them to be garbage comes much later, and
// who overwrites at full speed from one moment to the next must be slowed down
// before.
type replacedSample struct {
	every, turn  int
	asked, found int
}

// see takes note of an entry whose value lies apart. A look that fails counts for
// nothing: the flush needs nothing of what it would have found, and who reads what
// is damaged is told.
func (s *replacedSample) see(d *DB, key []byte) {
	if s.every == 0 {
		return // it is no flush
	}
	if s.turn++; s.turn < s.every {
		return
	}
	s.turn = 0
	slot, err := d.acquire()
	if err != nil {
		s.every = 0 // Close flushes: nobody will be slowed down
		return
	}
	defer d.release(slot)
	replaces := false
	if fault.Guard(func() error { // the flusher reads no other mapped bytes
		_, m, _, ok, err := d.pin(slot).tree.Get(key, base.Hash(key, d.hashSeed), base.SeqNumMax, nil)
		replaces = ok && m.Kind == base.KindPointer
		return err
	}) != nil {
		return
	}
	s.asked++
	if replaces {
		s.found++
	}
}

// add takes over what another sample of the same flush has seen.
func (s *replacedSample) add(other replacedSample) {
	s.asked += other.asked
	s.found += other.found
}

// part returns which part replaces others, and whether that is known.
func (s *replacedSample) part() (part float64, known bool) {
	return float64(s.found) / float64(max(1, s.asked)), s.asked >= replacedSamples/4
}
