package bench

import (
	"errors"
	"fmt"
)

// ErrWrong says that the database gave a wrong answer.
var ErrWrong = errors.New("WRONG ANSWER")

// wrongf returns an ErrWrong with details.
func wrongf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrWrong, fmt.Sprintf(format, args...))
}

// An oracle holds the current version of every key. Version 0 means that the key
// is absent. Goroutines may update different keys concurrently.
type oracle struct{ versions []uint8 }

func newOracle(space uint64) *oracle { return &oracle{versions: make([]uint8, space)} }

// next returns the next version of a key: 1 after 255, never 0.
func (o *oracle) next(number uint64) uint8 {
	if v := o.versions[number] + 1; v != 0 {
		return v
	}
	return 1
}

// totals are the sums of a complete scan.
type totals struct {
	keys    int
	keySum  uint64 // of the last 8 bytes of the keys
	endsSum uint64 // of the ends of the values
}

// totals returns the correct sums of a complete scan.
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
