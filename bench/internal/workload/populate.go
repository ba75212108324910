package workload

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// runPopulate loads in synced batches, reads while the store may still have
// background work, waits until the store is settled, and closes it.
func runPopulate(r *Run) error {
	present := r.population.Present()
	return r.loading(r.config(true, loadWriters), r.drawLoad, present.Count(), func(s stores.Store) error {
		return r.readFresh(s, present)
	})
}

// loading opens a store, measures a load in synced batches, calls then on the
// loaded store, and finishes the load. then may be nil.
func (r *Run) loading(c stores.Config, prepare func(s stores.Store, writers int) (*load, error), liveKeys uint64, then func(s stores.Store) error) error {
	s, err := r.open(c)
	if err != nil {
		return err
	}
	before, err := r.startCost()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	l, err := prepare(s, c.Writers)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if _, err := r.measured(l, "load_"); err != nil {
		return errors.Join(err, s.Close())
	}
	if then != nil {
		if err := then(s); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return r.finishLoad(s, before, liveKeys)
}

// readFresh measures reads right after a load. The reads that suffer most from
// unfinished work come first.
func (r *Run) readFresh(s stores.Store, present *Bitset) error {
	length := r.job.Pace.fresh()
	for _, readers := range []int{oneReader, manyReaders} {
		name := map[int]string{oneReader: "fresh_get_1", manyReaders: "fresh_get_16"}[readers]
		err := r.gets(s, getPhase{
			name: name, readers: readers, choose: anyKey(present), seed: 50, length: length, every: latencyEvery,
		})
		if err != nil {
			return err
		}
	}
	if err := r.seeks(s, present, "fresh_seek_1", oneReader, length); err != nil {
		return err
	}
	return r.scans(s, present, scanPhase{name: "fresh_whole", whole: true, length: length})
}

// finishLoad waits until the store is settled, closes it, and records the total
// cost of the load.
func (r *Run) finishLoad(s stores.Store, before cost, liveKeys uint64) error {
	r.settle("settle")
	if err := r.close(s); err != nil {
		return err
	}
	if err := r.finishLeftWork(); err != nil {
		return err
	}
	if err := before.note("settled_", r.population.UserBytes(r.population.Count)); err != nil {
		return err
	}
	live := r.population.UserBytes(liveKeys)
	r.set("live_mb", live/megabyte)
	r.set("size_per_live_byte", r.result.Metrics["size_mb"]*megabyte/live)
	return nil
}

// finishLeftWork opens the store again, waits for work that its close left, and records its
// size. That work is the compaction of a last flush, the replay of a log, or the removal of
// log files. Otherwise it would run beside the reads of later workloads, and the log files
// would count as space.
func (r *Run) finishLeftWork() error {
	// goleveldb keeps replaced tables for minutes, and removes them when it opens.
	for _, settle := range []bool{true, false} {
		s, err := r.info.Open(r.config(true, loadWriters))
		if err != nil {
			return fmt.Errorf("open again: %w", err)
		}
		if settle {
			r.settle("settle_again")
		}
		if err := s.Close(); err != nil {
			return fmt.Errorf("close again: %w", err)
		}
	}
	return r.noteFiles()
}

// runSorted loads ascending keys from one goroutine, as a restore does.
func runSorted(r *Run) error {
	count := r.population.Count
	ascending := func(s stores.Store, writers int) (*load, error) {
		return r.sequenceLoad(s, writers, count, func(i uint64) (key, version uint64) { return i, 0 })
	}
	c := r.config(true, 1)
	c.Ascending = true
	return r.loading(c, ascending, count, func(s stores.Store) error {
		return r.verify(s, Full(count), nil)
	})
}

// runUnique loads each key once in a scattered order. Nothing is overwritten, so
// the store alone causes every byte written beyond the user's.
func runUnique(r *Run) error {
	count := r.population.Count
	order := NewPermutation(count)
	scattered := func(s stores.Store, writers int) (*load, error) {
		return r.sequenceLoad(s, writers, count, func(i uint64) (key, version uint64) { return order.At(i), 0 })
	}
	return r.loading(r.config(true, loadWriters), scattered, count, func(s stores.Store) error {
		return r.verify(s, Full(count), nil)
	})
}

// runJSON loads text that compresses to a third, and reads it.
func runJSON(r *Run) error {
	present := r.population.Present()
	if err := r.loading(r.config(true, loadWriters), r.drawLoad, present.Count(), nil); err != nil {
		return err
	}
	s, err := r.open(r.config(true, loadWriters))
	if err != nil {
		return err
	}
	if err := r.readText(s, present); err != nil {
		return errors.Join(err, s.Close())
	}
	return s.Close()
}

func (r *Run) readText(s stores.Store, present *Bitset) error {
	if err := r.warm(s, present, r.job.Pace.Phase); err != nil {
		return err
	}
	for _, whole := range []bool{false, true} {
		name := "get_1"
		if whole {
			name = "whole_1"
		}
		err := r.gets(s, getPhase{
			name: name, readers: oneReader, choose: anyKey(present), whole: whole, seed: 60,
			length: r.job.Pace.Phase, every: latencyEvery,
		})
		if err != nil {
			return err
		}
	}
	return r.scans(s, present, scanPhase{name: "scan", length: r.job.Pace.Phase})
}

// verify checks every entry in one scan.
func (r *Run) verify(s stores.Store, present *Bitset, versions []uint32) error {
	w, err := r.newWalk(s, present)
	if err != nil {
		return err
	}
	w.versions = versions
	_, err = w.all(false)
	return errors.Join(err, w.close())
}

// verifyWhole checks every byte of every entry in one scan.
func (r *Run) verifyWhole(s stores.Store, present *Bitset, versions []uint32) error {
	w, err := r.newWalk(s, present)
	if err != nil {
		return err
	}
	w.versions = versions
	w.set(scanPhase{whole: true})
	_, err = w.all(false)
	return errors.Join(err, w.close())
}

// runOpen opens and closes the store several times, and records the medians and
// the first open.
func runOpen(r *Run) error {
	const rounds = 7
	present := r.population.Present()
	var opens, reads, closes []time.Duration
	for i := range rounds {
		began := time.Now()
		s, err := r.open(r.config(true, 1))
		if err != nil {
			return err
		}
		opens = append(opens, time.Since(began))
		began = time.Now()
		if err := r.readOne(s, present, uint64(i)); err != nil {
			return errors.Join(err, s.Close())
		}
		reads = append(reads, time.Since(began))
		if err := r.close(s); err != nil {
			return err
		}
		closes = append(closes, time.Duration(r.result.Metrics["close_ms"]*1e6))
	}
	r.setMillis("open_first_ms", opens[0])
	r.setMillis("open_ms", median(opens))
	r.setMillis("first_get_ms", median(reads))
	r.setMillis("close_ms", median(closes))
	return nil
}

func (r *Run) readOne(s stores.Store, present *Bitset, seed uint64) error {
	p, err := r.newProbe(s, false)
	if err != nil {
		return err
	}
	number, there := keyThat(true, present)(newRandom(seed))
	return errors.Join(p.getOriginal(number, there), p.close())
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
