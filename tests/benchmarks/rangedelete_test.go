package benchmarks

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat"
)

// BenchmarkDeletedRange has a million keys in tables, all of which one range
// deletion deletes but ten at each end, and measures a whole scan, a seek into
// the middle, and a read of a key that is deleted, while nothing has been
// compacted yet. The last two have something to compare with.
func BenchmarkDeletedRange(b *testing.B) {
	const keys = 1_000_000
	db := openBench(b, stoat.Options{Durability: stoat.Buffered})
	fillBench(b, db, keys)
	if err := db.Compact(b.Context(), stoat.CompactOptions{}); err != nil {
		b.Fatal(err)
	}
	middle := benchKey(nil, keys/2)
	measure := func(what string) {
		b.Run(what+"/get", func(b *testing.B) {
			benchView(b, db, func(tx stoat.Txn) { _, _ = tx.Get(middle) })
		})
		b.Run(what+"/seek", func(b *testing.B) {
			benchView(b, db, func(tx stoat.Txn) {
				it := tx.Iterator(stoat.IterOptions{})
				it.Seek(middle)
				it.Close()
			})
		})
	}
	measure("before")
	b.Run("delete", func(b *testing.B) {
		for range b.N {
			err := db.Update(func(tx stoat.Txn) error {
				return tx.DeleteRange(benchKey(nil, 10), benchKey(nil, keys-10))
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	measure("after")
	b.Run("after/scan", func(b *testing.B) {
		benchView(b, db, func(tx stoat.Txn) {
			n := 0
			for range tx.All() {
				n++
			}
			if n != 20 {
				b.Fatalf("%d keys, want 20", n)
			}
		})
	})
}

func benchView(b *testing.B, db *stoat.DB, do func(tx stoat.Txn)) {
	b.ReportAllocs()
	err := db.View(func(tx stoat.Txn) error {
		for range b.N {
			do(tx)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOwnDeletedRange measures seeks into a range that the transaction itself has
// deleted, while a memtable has its keys.
func BenchmarkOwnDeletedRange(b *testing.B) {
	const keys = 100_000
	db := openBench(b, stoat.Options{Durability: stoat.Buffered})
	fillBench(b, db, keys)
	tx, err := db.Begin(stoat.ReadWrite)
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Discard()
	if err := tx.DeleteRange(benchKey(nil, 0), benchKey(nil, keys-1)); err != nil {
		b.Fatal(err)
	}
	for _, reverse := range []bool{false, true} {
		b.Run(fmt.Sprintf("reverse=%t", reverse), func(b *testing.B) {
			it := tx.Iterator(stoat.IterOptions{Reverse: reverse})
			defer it.Close()
			for range b.N {
				if it.Seek(benchKey(nil, keys/2)) == reverse {
					b.Fatal("the iterator stands at the wrong end")
				}
			}
		})
	}
}
