package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// valueWorkloads are what becomes of values that lie apart from their keys: they
// are given as readers, joined, gathered and collected.
var valueWorkloads = []workload{
	{"values given as readers", testkit.SmallMemtable, comingTo([]testkit.Work{testkit.Streams}, valuesAsReaders)},
	{"joining", testkit.SmallMemtable, comingTo([]testkit.Work{testkit.Streams, testkit.Merges, testkit.Joins}, func(r *crashRun) error {
		return testkit.Times(3, func(int) error {
			if err := testkit.Times(10, func(i int) error { return r.commitAs(r.asReaders, testkit.RandomDurability(r.rng), r.large(i)) }); err != nil {
				return err
			}
			return r.db.Compact(context.Background(), stoat.CompactOptions{})
		})
	})},
	{"gathering", testkit.SmallMemtable, comingTo([]testkit.Work{testkit.Flushes, testkit.Merges, testkit.Gatherings}, func(r *crashRun) error {
		return testkit.Times(3, func(int) error {
			if err := r.scattered(); err != nil {
				return err
			}
			return r.db.Compact(context.Background(), stoat.CompactOptions{})
		})
	})},
	{"collecting", testkit.SmallMemtable, comingTo([]testkit.Work{testkit.Flushes, testkit.Merges, testkit.Rewrites}, func(r *crashRun) error {
		return testkit.Times(3, func(int) error {
			if err := r.overwritten(); err != nil {
				return err
			}
			return r.db.Collect(context.Background())
		})
	})},
	{"compacting ranges", testkit.SmallMemtable, comingTo([]testkit.Work{testkit.Flushes, testkit.Merges}, func(r *crashRun) error {
		return testkit.Times(4, func(int) error {
			if err := testkit.Times(20, func(int) error {
				return r.commit(testkit.RandomDurability(r.rng), testkit.MergeBatch(r.rng, 8, 5<<10)...)
			}); err != nil {
				return err
			}
			lower := r.rng.IntN(12)
			return r.db.Compact(context.Background(), stoat.CompactOptions{
				Lower: []byte(testkit.SetKey(lower, "").Key), Upper: []byte(testkit.SetKey(lower+1+r.rng.IntN(6), "").Key)})
		})
	})},
	{"writers beside joining, gathering and collecting", testkit.SmallMemtable, comingTo([]testkit.Work{testkit.Flushes, testkit.Merges}, func(r *crashRun) error {
		return testkit.Concurrently(3, func(i int, rng *rand.Rand) error {
			if i == 0 {
				return testkit.Times(4, func(int) error { return r.db.Compact(context.Background(), stoat.CompactOptions{}) })
			}
			return testkit.Times(40, func(int) error { return r.commit(testkit.RandomDurability(rng), testkit.MergeBatch(rng, 8, 9<<10)...) })
		}, r.seed)
	})},
	{"crashes behind joining, gathering and collecting", testkit.SmallMemtable, comingTo([]testkit.Work{testkit.Streams, testkit.Merges, testkit.Joins}, func(r *crashRun) error {
		return testkit.Times(4, func(i int) error {
			err := testkit.Times(6, func(i int) error { return r.commitAs(r.asReaders, stoat.Synced, r.large(i)) })
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
				return r.crash(testkit.RandomCut(r.rng), powerCut(r))
			}
			return r.reopen()
		})
	})},
}

// comingTo is a workload that must come to some work.
func comingTo(wanted []testkit.Work, run func(r *crashRun) error) func(r *crashRun) error {
	return func(r *crashRun) error {
		r.comesTo = wanted
		return run(r)
	}
}

// asReaders gives a transaction the values as readers.
func (r *crashRun) asReaders(tx stoat.Txn, writes []model.Write) error {
	for _, w := range writes {
		if len(w.Value) >= testkit.StreamedFrom {
			r.work[testkit.Streams].Add(1)
		}
		if err := testkit.PutAs(testkit.ReaderShapes[len(w.Value)%len(testkit.ReaderShapes)], tx, w); err != nil {
			return err
		}
	}
	return nil
}

// large makes writes of one key or two, with values that get files of their own, and
// of one with a short value.
func (r *crashRun) large(i int) []model.Write {
	long := func() string { return testkit.RandomValue(r.rng, 8<<10) + strings.Repeat("r", testkit.StreamedFrom) }
	writes := []model.Write{testkit.SetKey(300+2*i, long()), testkit.SetKey(600+i, testkit.RandomValue(r.rng, 900))}
	if r.rng.IntN(3) == 0 {
		writes = append(writes, testkit.SetKey(301+2*i, long()))
	}
	return writes
}

// valuesAsReaders commits values of readers, overwrites and deletes them, and gives
// up or loses some transactions that have made their files already.
func valuesAsReaders(r *crashRun) error {
	return testkit.Times(25, func(i int) error {
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
		if err := r.commitAs(r.asReaders, testkit.RandomDurability(r.rng), writes); err != nil || i%2 == 0 {
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
		if err := r.commit(testkit.RandomDurability(r.rng), testkit.SetKey(key, testkit.RandomValue(r.rng, 900)+strings.Repeat("s", 600))); err != nil {
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
		w := testkit.SetKey(key, testkit.RandomValue(r.rng, 900)+strings.Repeat("o", 600))
		if r.rng.IntN(2) == 0 {
			w.Version = model.Version{Deleted: true}
		}
		if err := r.commit(testkit.RandomDurability(r.rng), w); err != nil {
			return err
		}
	}
	// To compact a range merges, and leaves the garbage.
	return r.db.Compact(context.Background(), stoat.CompactOptions{Lower: []byte("k")})
}
