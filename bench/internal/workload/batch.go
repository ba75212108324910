package workload

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// runBatch writes each key once, blindly, from many goroutines, and syncs at the end.
// It uses the store's own way of doing so. If that is not Apply, it does the same by
// Apply in an empty directory: that is the baseline.
func runBatch(r *Run) error {
	ways := []bool{true, false}
	if r.job.Repeat%2 == 0 {
		slices.Reverse(ways) // neither always has the warmer process
	}
	for i, bulk := range ways {
		if i > 0 {
			if err := errors.Join(os.RemoveAll(r.job.Dir), os.Mkdir(r.job.Dir, 0o755)); err != nil {
				return err
			}
		}
		if own, err := r.blindLoad(bulk); err != nil || !own {
			return err
		}
	}
	return nil
}

// blindLoad loads an empty store: by its bulk, or by Apply. It returns whether the
// store has a bulk.
func (r *Run) blindLoad(bulk bool) (own bool, err error) {
	s, err := r.open(r.unsynced(loadWriters))
	if err != nil {
		return false, err
	}
	target, prefix := bulkStore{Store: s}, "applied_"
	b, own := s.(stores.Bulker)
	switch {
	case own && bulk:
		target.bulk, prefix = b.NewBulk(), "batch_"
	case !own:
		prefix = "batch_"
	}
	if err := r.loadBlindly(target, prefix); err != nil {
		return own, errors.Join(err, s.Close())
	}
	return own, r.close(s)
}

func (r *Run) loadBlindly(s bulkStore, prefix string) error {
	count := r.population.Count
	order := NewPermutation(count)
	l, err := r.sequenceLoad(s, loadWriters, count, func(i uint64) (key, version uint64) { return order.At(i), 0 })
	if err != nil {
		return err
	}
	began := time.Now()
	_, err = l.run()
	if err = errors.Join(err, s.commit()); err != nil {
		return err
	}
	if err := s.Sync(); err != nil {
		return err
	}
	took := time.Since(began)
	r.set(prefix+"keys_per_s", float64(count)/took.Seconds())
	r.set(prefix+"mb_per_s", r.population.UserBytes(count)/took.Seconds()/megabyte)
	if err := r.verifyWhole(s.Store, Full(count), nil); err != nil {
		return fmt.Errorf("%s: %w", prefix, err)
	}
	return nil
}

// A bulkStore applies batches to a bulk, if it has one.
type bulkStore struct {
	stores.Store
	bulk stores.Bulk // may be nil
}

// Apply writes only values, as the load does.
func (s bulkStore) Apply(b *stores.Batch) error {
	if s.bulk == nil {
		return s.Store.Apply(b)
	}
	for i := range b.Len() {
		op := b.At(i)
		if err := s.bulk.Set(op.Key, op.Value); err != nil {
			return err
		}
	}
	return nil
}

func (s bulkStore) commit() error {
	if s.bulk == nil {
		return nil
	}
	return s.bulk.Commit()
}
