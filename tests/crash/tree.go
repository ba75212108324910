package crash

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// treeWorkloads are the actions of a program that has more data than a memtable. The
// database flushes memtables, merges tables and releases the log. All of it goes on beside
// the commits, so that a power cut meets it anywhere.
var treeWorkloads = []workload{
	{"flushes", testkit.SmallMemtable, func(r *crashRun) error {
		return testkit.Times(60, func(int) error {
			return r.commit(testkit.RandomDurability(r.rng), testkit.MergeBatch(r.rng, 6, 8<<10)...)
		})
	}},
	{"flushes of buffered commits alone", testkit.SmallMemtable, func(r *crashRun) error {
		return testkit.Times(80, func(int) error { return r.commit(stoat.Buffered, testkit.MergeBatch(r.rng, 6, 8<<10)...) })
	}},
	{"compactions", testkit.SmallMemtable, func(r *crashRun) error { return r.compactions(stoat.Buffered) }},
	{"compactions of synced commits", testkit.SmallMemtable, func(r *crashRun) error { return r.compactions(stoat.Synced) }},
	{"compactions under snapshots", testkit.SmallMemtable, compactionsUnderSnapshots},
	{"compactions of deletions and of expired values", testkit.SmallMemtable, func(r *crashRun) error {
		return testkit.Times(120, func(int) error {
			writes := testkit.MergeBatch(r.rng, 10, 5<<10)
			for i := range writes {
				switch r.rng.IntN(4) {
				case 0:
					writes[i].Version = model.Version{Deleted: true}
				case 1:
					writes[i].ExpiresAt = r.clock.Seen() + uint64(r.rng.IntN(20))
				}
			}
			r.clock.Ms.Add(int64(r.rng.IntN(3)))
			return r.commit(testkit.RandomDurability(r.rng), writes...)
		})
	}},
	{"writers beside compactions", testkit.SmallMemtable, func(r *crashRun) error {
		return testkit.Concurrently(3, func(i int, rng *rand.Rand) error {
			return testkit.Times(40, func(int) error { return r.commit(testkit.RandomDurability(rng), testkit.MergeBatch(rng, 8, 5<<10)...) })
		}, r.seed)
	}},
	{"closes that flush", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Times(3, func(int) error {
			if err := testkit.Times(20, func(int) error {
				return r.commit(testkit.RandomDurability(r.rng), testkit.MergeBatch(r.rng, 8, 10<<10)...)
			}); err != nil {
				return err
			}
			return r.reopen()
		})
	}},
	{"closes in the middle of compactions", testkit.SmallMemtable, func(r *crashRun) error {
		return testkit.Times(4, func(int) error {
			if err := r.compactions(stoat.Buffered); err != nil {
				return err
			}
			return r.reopen()
		})
	}},
	{"power cuts in the middle of compactions", testkit.SmallMemtable, func(r *crashRun) error {
		return testkit.Times(4, func(int) error {
			if err := r.compactions(stoat.Buffered); err != nil {
				return err
			}
			return r.crash(testkit.RandomCut(r.rng), powerCut(r))
		})
	}},
	{"kills in the middle of flushes", testkit.SmallMemtable, func(r *crashRun) error {
		return testkit.Times(6, func(int) error {
			if err := testkit.Times(5+r.rng.IntN(20), func(int) error {
				return r.commit(stoat.Buffered, testkit.MergeBatch(r.rng, 8, 8<<10)...)
			}); err != nil {
				return err
			}
			return r.crash((*memfs.FS).Clone, killed(r))
		})
	}},
	{"kills until the log has many parts, then closes", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Times(2, func(int) error {
			if err := testkit.Times(6, func(int) error { return writeAndCrash(r, (*memfs.FS).Clone, &killed) }); err != nil {
				return err
			}
			return r.reopen()
		})
	}},
	{"new manifests", testkit.SmallMemtable, func(r *crashRun) error {
		// An edit names the first and the last key of each table: with keys
		// this long, a few of them fill a manifest.
		return testkit.Times(80, func(i int) error {
			w := testkit.SetKey(r.rng.IntN(30), testkit.RandomValue(r.rng, 8<<10))
			w.Key += strings.Repeat("k", 20<<10)
			return r.commit(testkit.RandomDurability(r.rng), w)
		})
	}},
}

// compactions commits about 2 MiB: some thirty memtables.
func (r *crashRun) compactions(d stoat.Durability) error {
	return testkit.Times(100, func(int) error { return r.commit(d, testkit.MergeBatch(r.rng, 10, 8<<10)...) })
}

// compactionsUnderSnapshots reads old snapshots while what only they need
// would otherwise be dropped.
func compactionsUnderSnapshots(r *crashRun) error {
	var writing atomic.Int64
	writing.Store(1)
	return testkit.Concurrently(3, func(i int, rng *rand.Rand) error {
		if i == 0 {
			defer writing.Store(0)
			return testkit.Times(150, func(int) error { return r.commit(stoat.Buffered, testkit.MergeBatch(r.rng, 8, 5<<10)...) })
		}
		for writing.Load() > 0 {
			if err := r.readTwice(&writing, rng); err != nil {
				return err
			}
		}
		return nil
	}, r.seed)
}

// readTwice reads everything at one snapshot, at its beginning and some
// flushes later, and demands the same.
func (r *crashRun) readTwice(writing *atomic.Int64, rng *rand.Rand) error {
	return r.db.View(func(tx stoat.Txn) error {
		want, err := testkit.ScanAll(tx, stoat.IterOptions{})
		if err != nil {
			return err
		}
		for flushes := r.db.Stats().Flushes + int64(rng.IntN(12)); writing.Load() > 0 && r.db.Stats().Flushes < flushes; {
			if _, err := tx.Has([]byte("key001")); err != nil {
				return err
			}
		}
		got, err := testkit.ScanAll(tx, stoat.IterOptions{Reverse: true})
		if err != nil {
			return err
		}
		for i := range got {
			if len(got) != len(want) || got[len(got)-1-i] != want[i] {
				return fmt.Errorf("the snapshot %d changed while it was read: %d items, then %d", tx.ReadVersion(), len(want), len(got))
			}
		}
		return nil
	})
}
