package workload

import (
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// A scanPhase repeats full scans for about the given length of time.
type scanPhase struct {
	name     string
	keysOnly bool
	whole    bool
	ranged   bool // by the store's own loop over all entries, if it has one
	length   time.Duration
}

// scans runs a phase and records the time per key of the first scan and of all
// scans.
func (r *Run) scans(s stores.Store, present *Bitset, phase scanPhase) error {
	w, err := r.newWalk(s, present)
	if err != nil {
		return err
	}
	w.set(phase)
	var keys uint64
	began := time.Now()
	for first := true; first || time.Since(began) < phase.length; first = false {
		n, err := w.all(phase.keysOnly)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", phase.name, err), w.close())
		}
		keys += n
		if first {
			r.set(phase.name+"_first_ns", nanosPerOp(n, time.Since(began)))
		}
	}
	r.set(phase.name+"_ns", nanosPerOp(keys, time.Since(began)))
	return w.close()
}

func runScan(r *Run) error {
	return r.reading(oneReader, r.job.Pace.Phase, nil, func(s stores.Store, present *Bitset) error {
		phases := []scanPhase{{name: "scan_whole", whole: true}, {name: "scan"}, {name: "keys", keysOnly: true}}
		if r.ranges(s) {
			phases = append(phases, scanPhase{name: "all_whole", whole: true, ranged: true})
		}
		for _, phase := range phases {
			phase.length = r.job.Pace.Phase
			if err := r.scans(s, present, phase); err != nil {
				return err
			}
		}
		return nil
	})
}

// ranges returns whether the store has a loop over all entries beside its
// iterator.
func (r *Run) ranges(s stores.Store) bool {
	reader, err := s.NewReader()
	if err != nil {
		return false // the first phase meets the same error
	}
	_, ok := reader.(stores.Ranger)
	return ok && reader.Close() == nil
}

// seekEntries is the number of entries read after a seek.
const seekEntries = 10

// seeks reads seekEntries entries from random positions in several goroutines.
// Each seek is a separate query.
func (r *Run) seeks(s stores.Store, present *Bitset, name string, readers int, length time.Duration) error {
	var walks []*walk
	closeAll := func() (err error) {
		for _, w := range walks {
			err = errors.Join(err, w.close())
		}
		return err
	}
	for range readers {
		w, err := r.newWalk(s, present)
		if err != nil {
			return errors.Join(err, closeAll())
		}
		walks = append(walks, w)
	}
	ops, elapsed, err := timed(readers, length, func(w *worker) error {
		rng := newRandom(uint64(w.index) + 77)
		for w.running() {
			if err := walks[w.index].some(rng.below(present.size), seekEntries); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, closeAll()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.set(name+"_ns", nanosPerOp(ops, elapsed))
	r.set(name+"_per_s", float64(ops)/elapsed.Seconds())
	return nil
}

func runSeek(r *Run) error {
	return r.reading(manyReaders, r.job.Pace.Phase, nil, func(s stores.Store, present *Bitset) error {
		if err := r.seeks(s, present, "seek_1", oneReader, r.job.Pace.Phase); err != nil {
			return err
		}
		return r.seeks(s, present, "seek_16", manyReaders, r.job.Pace.Phase)
	})
}
