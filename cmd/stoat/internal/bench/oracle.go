package bench

import (
	"errors"
	"fmt"
)

// ErrWrong marks an answer of the database that is not what was written.
var ErrWrong = errors.New("WRONG ANSWER")

// wrongf returns an ErrWrong with details.
func wrongf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrWrong, fmt.Sprintf(format, args...))
}

// An oracle knows which version every key must show. Version 0 is "absent".
// Goroutines may write to different keys at the same time.
type oracle struct{ versions []uint8 }

func newOracle(space uint64) *oracle { return &oracle{versions: make([]uint8, space)} }

// next returns the version that follows the one of a key. It comes back to 1
// after 255, never to 0.
func (o *oracle) next(number uint64) uint8 {
	if v := o.versions[number] + 1; v != 0 {
		return v
	}
	return 1
}

// totals are what a complete scan must add up to.
type totals struct {
	keys    int
	keySum  uint64 // of the last 8 bytes of the keys
	endsSum uint64 // of the ends of the values
}

// totals adds up what a scan must show.
func (o *oracle) totals(w *workload) totals {
	var t totals
	key := w.newKey()
	for number, version := range o.versions {
		if version == 0 {
			continue
		}
		t.keys++
		w.putKey(key, uint64(number))
		t.keySum += keyEnd(key)
		t.endsSum += w.wantEnds(uint64(number), version)
	}
	return t
}
