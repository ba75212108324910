package benchmarks

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
)

// stampKeys is the number of versions in the databases of BenchmarkTimestamps.
const stampVersions = 200_000

// BenchmarkTimestamps compares reads at a timestamp with reads without. All databases
// have as many entries, in keys with 1 or 100 versions.
func BenchmarkTimestamps(b *testing.B) {
	for _, versions := range []int{1, 100} {
		for _, compacted := range []bool{true, false} {
			b.Run(fmt.Sprintf("versions=%d/compacted=%v", versions, compacted), func(b *testing.B) {
				benchmarkTimestamps(b, versions, compacted)
			})
		}
	}
}

func stampKey(i int) []byte { return fmt.Appendf(nil, "key-%016x", uint64(i)*0x9e3779b97f4a7c15) }

func benchmarkTimestamps(b *testing.B, versions int, compacted bool) {
	db, ks := stampedDatabase(b, versions, compacted)
	keys := stampVersions / versions
	b.Run("Get", func(b *testing.B) {
		inViews(b, db, func(tx stoat.Txn, rng *rand.Rand) error {
			_, err := tx.Get(stampKey(rng.IntN(keys)))
			return err
		})
	})
	b.Run("GetAt", func(b *testing.B) {
		inViews(b, db, func(tx stoat.Txn, rng *rand.Rand) error {
			_, err := tx.In(ks).At(uint64(rng.IntN(10 * versions))).Get(stampKey(rng.IntN(keys)))
			if errors.Is(err, stoat.ErrNotFound) {
				err = nil // before the first version
			}
			return err
		})
	})
	b.Run("Seek", func(b *testing.B) {
		err := db.View(func(tx stoat.Txn) error {
			rng := rand.New(rand.NewPCG(1, 1))
			it := tx.Iterator(stoat.IterOptions{})
			for b.Loop() {
				it.Seek(stampKey(rng.IntN(keys)))
				it.Value()
			}
			return it.Close()
		})
		if err != nil {
			b.Fatal(err)
		}
	})
	b.Run("GetAtInViewsOfOne", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 1))
		for b.Loop() {
			err := db.View(func(tx stoat.Txn) error {
				_, err := tx.In(ks).At(uint64(10 * versions)).Get(stampKey(rng.IntN(keys)))
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	// Each read follows a commit, which the memtable has not sorted yet.
	b.Run("GetAtAfterCommit", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 1))
		afterCommits(b, db, func(tx stoat.Txn) error {
			return tx.In(ks).At(uint64(rng.IntN(10*versions))).Set(stampKey(rng.IntN(keys)), make([]byte, 100))
		}, func(tx stoat.Txn) error {
			_, err := tx.In(ks).At(uint64(10 * versions)).Get(stampKey(rng.IntN(keys)))
			return err
		})
	})
	b.Run("GetAfterCommit", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 1))
		afterCommits(b, db, func(tx stoat.Txn) error {
			return tx.Set(stampKey(rng.IntN(keys)), make([]byte, 100))
		}, func(tx stoat.Txn) error {
			_, err := tx.Get(stampKey(rng.IntN(keys)))
			return err
		})
	})
	for name, scan := range map[string]func(tx stoat.Txn) (n int){
		"Scan": func(tx stoat.Txn) (n int) {
			for range tx.All() {
				n++
			}
			return n
		},
		"ScanAt": func(tx stoat.Txn) (n int) {
			for range tx.In(ks).At(uint64(5 * versions)).All() {
				n++
			}
			return n
		},
	} {
		b.Run(name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				_ = db.View(func(tx stoat.Txn) error { n += scan(tx); return tx.Err() })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/key")
		})
	}
}

// afterCommits commits and reads in turn.
func afterCommits(b *testing.B, db *stoat.DB, write, read func(stoat.Txn) error) {
	for b.Loop() {
		if err := errors.Join(db.Update(write), db.View(read)); err != nil {
			b.Fatal(err)
		}
	}
}

// inViews calls read again and again, 100 times in each View.
func inViews(b *testing.B, db *stoat.DB, read func(stoat.Txn, *rand.Rand) error) {
	rng := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for n := 0; n < b.N; n += 100 {
		err := db.View(func(tx stoat.Txn) error {
			for range min(100, b.N-n) {
				if err := read(tx, rng); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// stampedDatabase returns a database with the same keys in a keyspace with timestamps
// and in the default keyspace, where each has one version. Versions arrive in random
// order.
func stampedDatabase(b *testing.B, versions int, compacted bool) (*stoat.DB, *stoat.Keyspace) {
	db, err := stoat.Open(b.TempDir(), &stoat.Options{Durability: stoat.Buffered, MemtableSize: 8 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	if err != nil {
		b.Fatal(err)
	}
	order := rand.New(rand.NewPCG(2, 2)).Perm(stampVersions)
	value := make([]byte, 100)
	for len(order) > 0 {
		err := db.Update(func(tx stoat.Txn) error {
			for _, i := range order[:1000] {
				key := stampKey(i / versions)
				if err := tx.In(ks).At(uint64(i%versions*10)).Set(key, value); err != nil {
					return err
				}
				if err := tx.Set(key, value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		order = order[1000:]
	}
	if compacted {
		if err := db.Compact(b.Context(), stoat.CompactOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	return db, ks
}
