package jobs

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/state"
)

// sampleSize is about the number of values of a flush for which the flusher looks up
// whether they replace others. One look costs a microsecond, or a read of the device.
const sampleSize = 64

// A replacedSample estimates which part of the values that a flush writes to
// value files replaces others. The merge that finds them to be garbage comes much
// later, and commits that suddenly overwrite at full speed must be slowed down
// before.
type replacedSample struct {
	store    *state.Store
	hashSeed uint64

	every, passed int
	asked, found  int
}

// see notes a key whose value lies apart. A failed look does not count: the flush does
// not need it.
func (s *replacedSample) see(key []byte) {
	if s.passed++; s.passed < s.every {
		return
	}
	s.passed = 0
	slot, v, err := s.store.HoldView()
	if err != nil {
		return // Close flushes, and slows no commit down
	}
	defer s.store.Release(slot)
	replaces := false
	if fault.Guard(func() error { // the flusher reads no other mapped bytes
		_, m, _, ok, err := v.Tree.Get(key, base.Hash(key, s.hashSeed), base.SeqNumMax, nil)
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
func (s *replacedSample) add(other *replacedSample) {
	s.asked += other.asked
	s.found += other.found
}

// part returns which part replaces others, and whether that is known.
func (s *replacedSample) part() (part float64, known bool) {
	return float64(s.found) / float64(max(1, s.asked)), s.asked >= sampleSize/4
}
