package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
)

// BenchmarkWalk walks through a warm database that lies in one run of tables,
// and looks at both ends of each value, which lies in the table, or apart in a
// value file: whole walks, of which one operation is an entry, and short ones from a
// random key on, each time as a transaction of its own.
func BenchmarkWalk(b *testing.B) {
	for _, c := range []struct{ size, keys int }{{128, 1 << 20}, {1 << 10, 1 << 17}, {16 << 10, 1 << 13}} {
		b.Run(fmt.Sprint(c.size), func(b *testing.B) {
			db := openBench(b, stoat.Options{Durability: stoat.Buffered})
			fillSized(b, db, c.keys, c.size)
			if err := db.Compact(b.Context(), stoat.CompactOptions{}); err != nil {
				b.Fatal(err)
			}
			benchWhole(b, db, stoat.IterOptions{}, c.keys) // what is read later has been verified
			for _, o := range []stoat.IterOptions{{}, {KeysOnly: true}} {
				b.Run(fmt.Sprintf("all/keysOnly=%v", o.KeysOnly), func(b *testing.B) {
					b.ReportAllocs()
					for done := 0; done < b.N; done += c.keys {
						benchWhole(b, db, o, min(c.keys, b.N-done))
					}
				})
			}
			for _, n := range []int{10, 20, 50} {
				b.Run(fmt.Sprint("seek", n), func(b *testing.B) { benchShort(b, db, c.keys, n) })
			}
		})
	}
}

// fillSized writes keys in random order, in batches of 1,000, with values of
// one size.
func fillSized(b *testing.B, db *stoat.DB, keys, size int) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	order := rng.Perm(keys)
	value := make([]byte, size)
	var key []byte
	for len(order) > 0 {
		batch := order[:min(1000, len(order))]
		order = order[len(batch):]
		err := db.Update(func(tx stoat.Txn) error {
			for _, k := range batch {
				key = benchKey(key, k)
				value[0], value[size-1] = byte(k), byte(k)
				if err := tx.Set(key, value); err != nil {
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

// benchWhole walks over the first n keys of the database.
func benchWhole(b *testing.B, db *stoat.DB, o stoat.IterOptions, n int) {
	b.Helper()
	seen := 0
	err := db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(o)
		defer it.Close()
		for seen < n && it.Next() {
			if v := it.Value(); len(v) > 0 && v[0] != v[len(v)-1] {
				b.Fatal("a wrong value")
			}
			if len(it.Key()) == 0 {
				b.Fatal("no key")
			}
			seen++
		}
		return it.Err()
	})
	if err != nil || seen < n {
		b.Fatal(seen, err)
	}
}

// benchShort walks over n keys at a time.
func benchShort(b *testing.B, db *stoat.DB, keys, n int) {
	rng := rand.New(rand.NewPCG(3, 4))
	var key []byte
	walk := func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{Lower: key})
		defer it.Close()
		for range n {
			if !it.Next() {
				b.Fatal("the keys were not there", it.Err())
			}
			if v := it.Value(); v[0] != v[len(v)-1] {
				b.Fatal("a wrong value")
			}
		}
		return nil
	}
	b.ReportAllocs()
	for b.Loop() {
		key = benchKey(key, rng.IntN(keys-n))
		if err := db.View(walk); err != nil {
			b.Fatal(err)
		}
	}
}
