package workload

import (
	"fmt"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// A walk scans for one goroutine. It checks that a scan returns exactly the
// present keys, in order, each with its value.
type walk struct {
	reader   stores.Reader
	keys     Keys
	values   Values
	present  *Bitset
	versions []uint32 // by key; nil if all are 0
	scratch  []byte   // for checks of whole values; nil checks only their ends

	keysOnly bool
	ranged   bool
	next     uint64 // the smallest number that the scan may return next
	visited  uint64
	text     Key
	callback func(key, value []byte) error
}

func (r *Run) newWalk(s stores.Store, present *Bitset) (*walk, error) {
	reader, err := s.NewReader()
	if err != nil {
		return nil, fmt.Errorf("new reader: %w", err)
	}
	w := &walk{reader: reader, keys: r.population.Keys, values: r.population.Values, present: present}
	w.callback = w.entry
	return w, nil
}

// set prepares w for a phase.
func (w *walk) set(phase scanPhase) {
	w.ranged = phase.ranged
	if phase.whole {
		w.scratch = make([]byte, w.values.Size)
	}
}

func (w *walk) close() error { return w.reader.Close() }

func (w *walk) entry(key, value []byte) error {
	number, ok := w.keys.Number(key)
	if !ok {
		return fmt.Errorf("%w: key %q was never written", ErrWrong, key)
	}
	if want, ok := w.present.Next(w.next); !ok || number != want {
		return fmt.Errorf("%w: the scan returns key %d, want %d (exists: %t)", ErrWrong, number, want, ok)
	}
	w.next = number + 1
	w.visited++
	if w.keysOnly {
		return nil
	}
	return w.checkValue(number, value)
}

func (w *walk) checkValue(number uint64, value []byte) error {
	var version uint64
	var err error
	if w.scratch != nil {
		version, err = w.values.CheckWhole(value, number, w.scratch)
	} else {
		version, err = w.values.Check(value, number)
	}
	if err != nil {
		return err
	}
	var want uint64
	if w.versions != nil {
		want = uint64(w.versions[number])
	}
	if version != want {
		return fmt.Errorf("%w: key %d has version %d, want %d", ErrWrong, number, version, want)
	}
	return nil
}

// all scans the whole store and returns the number of its keys.
func (w *walk) all(keysOnly bool) (uint64, error) {
	w.keysOnly, w.next, w.visited = keysOnly, 0, 0
	if err := w.scanAll(); err != nil {
		return 0, err
	}
	if missing, ok := w.present.Next(w.next); ok {
		return 0, fmt.Errorf("%w: the scan ends before key %d", ErrWrong, missing)
	}
	return w.visited, nil
}

func (w *walk) scanAll() error {
	if ranger, ok := w.reader.(stores.Ranger); ok && w.ranged {
		return ranger.ScanRange(w.callback)
	}
	return w.reader.Scan(stores.ScanOptions{KeysOnly: w.keysOnly}, w.callback)
}

// some scans up to limit entries, beginning at the key with number from.
func (w *walk) some(from uint64, limit int) error {
	w.keysOnly, w.next, w.visited = false, from, 0
	w.keys.Put(&w.text, from)
	err := w.reader.Scan(stores.ScanOptions{From: w.text[:], Limit: limit}, w.callback)
	if err != nil {
		return err
	}
	if missing, ok := w.present.Next(w.next); ok && w.visited < uint64(limit) {
		return fmt.Errorf("%w: the scan ends before key %d", ErrWrong, missing)
	}
	return nil
}
