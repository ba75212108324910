package workload

import (
	"errors"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

// runDelete loads, deletes every key, and measures how much space comes back:
// while the store idles, after the store's own calls, and after the store was closed and
// opened again.
func runDelete(r *Run) error {
	s, err := r.open(r.unsynced(loadWriters))
	if err != nil {
		return err
	}
	if err := r.loadAndDelete(s); err != nil {
		return errors.Join(err, s.Close())
	}
	if err := r.close(s); err != nil {
		return err
	}
	return r.finishLeftWork()
}

func (r *Run) loadAndDelete(s stores.Store) error {
	count := r.population.Count
	order := NewPermutation(count)
	l, err := r.sequenceLoad(s, loadWriters, count, func(i uint64) (key, version uint64) { return order.At(i), 0 })
	if err != nil {
		return err
	}
	if _, err := r.measured(l, "load_"); err != nil {
		return err
	}
	if err := r.noteLoaded(s); err != nil {
		return err
	}
	if _, err := r.measured(r.deletion(l, order), "delete_"); err != nil {
		return err
	}
	if err := s.Sync(); err != nil {
		return err
	}
	r.settle("settle")
	if err := r.noteSpace("space_idle_mb"); err != nil {
		return err
	}
	began := time.Now()
	if err := s.Collect(); err != nil {
		return err
	}
	r.set("collect_s", time.Since(began).Seconds())
	r.settle("collect_settle")
	if err := r.noteSpace("space_collected_mb"); err != nil {
		return err
	}
	return r.scanEmpty(s)
}

func (r *Run) noteLoaded(s stores.Store) error {
	if err := s.Sync(); err != nil {
		return err
	}
	r.settle("load_settle")
	if err := r.noteSpace("space_loaded_mb"); err != nil {
		return err
	}
	// A store that lost its load would show little space afterwards.
	return r.verify(s, Full(r.population.Count), nil)
}

// deletion returns a load that deletes all keys in the given order. It reuses
// the buffers of loaded.
func (r *Run) deletion(loaded *load, order Permutation) *load {
	p := &r.population
	ops := batchOps(p.Count)
	l := &load{store: loaded.store, writers: loadWriters, buffers: loaded.buffers, batches: loaded.batches}
	l.fill = func(b *stores.Batch, _ int, batch uint64) {
		var text Key
		ranges(batch, ops, p.Count, func(i uint64) {
			p.Keys.Put(&text, order.At(i))
			b.Delete(text[:])
		})
	}
	return l
}

// scanEmpty records the time of a scan of the emptied store.
func (r *Run) scanEmpty(s stores.Store) error {
	began := time.Now()
	if err := r.verify(s, NewBitset(r.population.Count), nil); err != nil {
		return err
	}
	r.setMillis("empty_scan_ms", time.Since(began))
	return nil
}

func (r *Run) noteSpace(name string) error {
	space, err := measure.DirSpace(r.job.Dir)
	if err != nil {
		return err
	}
	r.set(name, float64(space.AllocatedBytes)/megabyte)
	return nil
}
