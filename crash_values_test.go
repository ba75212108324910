package stoat_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
)

// valueWorkloads are what becomes of values that lie apart from their keys: they
// are given as readers, joined, gathered and collected.
var valueWorkloads = []crashWorkload{
	{"values given as readers", smallMemtable, comingTo([]work{streams}, valuesAsReaders)},
	{"joining", smallMemtable, comingTo([]work{streams, merges, joins}, func(r *crashRun) error {
		return times(3, func(int) error {
			if err := times(10, func(i int) error { return r.commitAs(r.asReaders, anyDurability(r.rng), r.large(i)) }); err != nil {
				return err
			}
			return r.db.Compact(context.Background(), stoat.CompactOptions{})
		})
	})},
	{"gathering", smallMemtable, comingTo([]work{flushes, merges, gatherings}, func(r *crashRun) error {
		return times(3, func(int) error {
			if err := r.scattered(); err != nil {
				return err
			}
			return r.db.Compact(context.Background(), stoat.CompactOptions{})
		})
	})},
	{"collecting", smallMemtable, comingTo([]work{flushes, merges, rewrites}, func(r *crashRun) error {
		return times(3, func(int) error {
			if err := r.overwritten(); err != nil {
				return err
			}
			return r.db.Collect(context.Background())
		})
	})},
	{"compacting ranges", smallMemtable, comingTo([]work{flushes, merges}, func(r *crashRun) error {
		return times(4, func(int) error {
			if err := times(20, func(int) error { return r.commit(anyDurability(r.rng), batch(r.rng, 8, 5<<10)...) }); err != nil {
				return err
			}
			lower := r.rng.IntN(12)
			return r.db.Compact(context.Background(), stoat.CompactOptions{
				Lower: []byte(set(lower, "").Key), Upper: []byte(set(lower+1+r.rng.IntN(6), "").Key)})
		})
	})},
	{"writers beside joining, gathering and collecting", smallMemtable, comingTo([]work{flushes, merges}, func(r *crashRun) error {
		return concurrently(3, func(i int, rng *rand.Rand) error {
			if i == 0 {
				return times(4, func(int) error { return r.db.Compact(context.Background(), stoat.CompactOptions{}) })
			}
			return times(40, func(int) error { return r.commit(anyDurability(rng), batch(rng, 8, 9<<10)...) })
		}, r.seed)
	})},
	{"crashes behind joining, gathering and collecting", smallMemtable, comingTo([]work{streams, merges, joins}, func(r *crashRun) error {
		return times(4, func(i int) error {
			err := times(6, func(i int) error { return r.commitAs(r.asReaders, stoat.Synced, r.large(i)) })
			if err == nil {
				err = r.scattered()
			}
			if err == nil {
				err = r.db.Compact(context.Background(), stoat.CompactOptions{})
			}
			if err != nil {
				return err
			}
			if i%2 == 0 {
				return r.crash(anyCut(r.rng), powerCut(r))
			}
			return r.reopen()
		})
	})},
}

// comingTo is a workload that must come to some work.
func comingTo(wanted []work, run func(r *crashRun) error) func(r *crashRun) error {
	return func(r *crashRun) error {
		r.comesTo = wanted
		return run(r)
	}
}

// streamedFrom is from what length on a value that is given as a reader gets a file
// of its own, if the memtable is small.
const streamedFrom = smallMemtable / 4

// asReaders gives a transaction the values as readers.
func (r *crashRun) asReaders(tx *stoat.Txn, writes []model.Write) error {
	for _, w := range writes {
		if len(w.Value) >= streamedFrom {
			r.work[streams].Add(1)
		}
		if err := putAs(readerShapes[len(w.Value)%len(readerShapes)], tx, w); err != nil {
			return err
		}
	}
	return nil
}

// large makes writes of one key or two, with values that get files of their own, and
// of one with a short value.
func (r *crashRun) large(i int) []model.Write {
	long := func() string { return value(r.rng, 8<<10) + strings.Repeat("r", streamedFrom) }
	writes := []model.Write{set(300+2*i, long()), set(600+i, value(r.rng, 900))}
	if r.rng.IntN(3) == 0 {
		writes = append(writes, set(301+2*i, long()))
	}
	return writes
}

// valuesAsReaders commits values of readers, overwrites and deletes them, and gives
// up or loses some transactions that have made their files already.
func valuesAsReaders(r *crashRun) error {
	return times(25, func(i int) error {
		writes := r.large(r.rng.IntN(5))
		if r.rng.IntN(4) == 0 {
			writes[0].Version = model.Version{Deleted: true}
		}
		lost, err := r.db.Begin(stoat.ReadWrite)
		if err != nil {
			return err
		}
		defer lost.Discard()
		if _, err := lost.Has([]byte(writes[0].Key)); err != nil {
			return err
		}
		if err := r.asReaders(lost, r.large(900)); err != nil {
			return err
		}
		if err := r.commitAs(r.asReaders, anyDurability(r.rng), writes); err != nil || i%2 == 0 {
			return err
		}
		if err := lost.Commit(); !errors.Is(err, stoat.ErrConflict) {
			return fmt.Errorf("commit: %v, want ErrConflict", err)
		}
		return nil
	})
}

// scattered leaves short values apart from their keys in the order of their
// commits, so that neighbours lie in different files.
func (r *crashRun) scattered() error {
	for _, key := range r.rng.Perm(200) {
		if err := r.commit(anyDurability(r.rng), set(key, value(r.rng, 900)+strings.Repeat("s", 600))); err != nil {
			return err
		}
	}
	return nil
}

// overwritten overwrites and deletes half of what scattered leaves, and merges it, so
// that all know what is garbage.
func (r *crashRun) overwritten() error {
	if err := r.scattered(); err != nil {
		return err
	}
	for _, key := range r.rng.Perm(200)[:100] {
		w := set(key, value(r.rng, 900)+strings.Repeat("o", 600))
		if r.rng.IntN(2) == 0 {
			w.Version = model.Version{Deleted: true}
		}
		if err := r.commit(anyDurability(r.rng), w); err != nil {
			return err
		}
	}
	// To compact a range merges, and leaves the garbage.
	return r.db.Compact(context.Background(), stoat.CompactOptions{Lower: []byte("k")})
}
