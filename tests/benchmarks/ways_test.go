package benchmarks

import (
	"testing"

	"github.com/stoatdb/stoat"
)

// A way walks over all keys of a database. It returns how many it saw.
type way struct {
	name string
	walk func(tx stoat.Txn) int
	took stopwatch
}

// check looks at an entry as a caller does.
func check(b *testing.B, key, value []byte) int {
	if len(key) == 0 || len(value) > 0 && value[0] != value[len(value)-1] {
		b.Fatal("a wrong entry")
	}
	return 1
}

// ways are all ways to walk over a database.
func ways(b *testing.B) []*way {
	walk := func(o stoat.IterOptions, begin, on func(stoat.Iterator) bool) func(stoat.Txn) int {
		return func(tx stoat.Txn) (n int) {
			it := tx.Iterator(o)
			defer it.Close()
			for ok := begin(it); ok; ok = on(it) {
				n += check(b, it.Key(), it.Value())
			}
			return n
		}
	}
	return []*way{
		{name: "next", walk: func(tx stoat.Txn) (n int) {
			it := tx.Iterator(stoat.IterOptions{})
			defer it.Close()
			for it.Next() {
				n += check(b, it.Key(), it.Value())
			}
			return n
		}},
		{name: "all", walk: func(tx stoat.Txn) (n int) {
			for key, value := range tx.All() {
				n += check(b, key, value)
			}
			return n
		}},
		{name: "reverse", walk: walk(stoat.IterOptions{Reverse: true}, stoat.Iterator.First, stoat.Iterator.Next)},
		{name: "prev", walk: walk(stoat.IterOptions{}, stoat.Iterator.Last, stoat.Iterator.Prev)},
		{name: "loop-reverse", walk: func(tx stoat.Txn) (n int) {
			for key, value := range tx.Loop(stoat.IterOptions{Reverse: true}) {
				n += check(b, key, value)
			}
			return n
		}},
		{name: "loop-keys", walk: func(tx stoat.Txn) (n int) {
			for key := range tx.Loop(stoat.IterOptions{KeysOnly: true}) {
				n += check(b, key, nil)
			}
			return n
		}},
	}
}

// BenchmarkWays walks over a warm database in each way in turn, and reports the medians
// per entry. The ratios are those of All to Next, and of Prev to an iterator with Reverse.
func BenchmarkWays(b *testing.B) {
	const keys = 1 << 17
	db := openBench(b, stoat.Options{Durability: stoat.Buffered})
	fillSized(b, db, keys, 128)
	if err := db.Compact(b.Context(), stoat.CompactOptions{}); err != nil {
		b.Fatal(err)
	}
	benchWhole(b, db, stoat.IterOptions{}, keys)
	all := ways(b)
	err := db.View(func(tx stoat.Txn) error {
		for b.Loop() {
			for _, w := range all {
				w.took.time(func() {
					if n := w.walk(tx); n != keys {
						b.Fatalf("%s saw %d entries", w.name, n)
					}
				})
			}
		}
		return tx.Err()
	})
	if err != nil {
		b.Fatal(err)
	}
	took := map[string]float64{}
	for _, w := range all {
		took[w.name] = w.took.median() / keys
		b.ReportMetric(took[w.name], w.name+"-ns")
	}
	b.ReportMetric(took["all"]/took["next"], "all/next")
	b.ReportMetric(took["prev"]/took["reverse"], "prev/reverse")
}
