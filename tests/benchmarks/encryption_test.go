package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// The benchmarks of encryption work in turns with a plain and with an encrypted
// database, and report the ratio of their times.

// inTurns calls each of two functions in turns, and reports the median time of a call
// divided by each, and the ratio of the second to the first. Calls are short, so that
// the median says little about other programs.
func inTurns(b *testing.B, each float64, plain, encrypted func(i int)) {
	var took [2]stopwatch
	rounds := 0
	for b.Loop() {
		for i, fn := range []func(int){plain, encrypted} {
			took[i].time(func() { fn(rounds) })
		}
		rounds++
	}
	b.ReportMetric(took[0].median()/each, "ns/plain")
	b.ReportMetric(took[1].median()/each, "ns/encrypted")
	b.ReportMetric(took[1].median()/took[0].median(), "ratio")
	b.ReportMetric(0, "ns/op")
}

// openBoth opens a plain and an encrypted database.
func openBoth(b *testing.B, o stoat.Options) (dbs [2]*stoat.DB) {
	for i := range dbs {
		o.Keys = testkit.KeysIf(i == 1)
		dbs[i] = openBench(b, o)
	}
	return dbs
}

// eachSize runs a benchmark with values beside the keys, and with values apart.
func eachSize(b *testing.B, run func(b *testing.B, n, size int)) {
	for _, c := range []struct{ n, size int }{{400_000, 128}, {100_000, 1024}} {
		b.Run(fmt.Sprintf("size=%d", c.size), func(b *testing.B) { run(b, c.n, c.size) })
	}
}

func warmOptions() stoat.Options {
	return stoat.Options{Durability: stoat.Buffered, MemoryBudget: 2 << 30, MemtableSize: 32 << 20}
}

// BenchmarkEncryption_Get reads random keys of a merged database that fits the budget,
// 100 a call.
func BenchmarkEncryption_Get(b *testing.B) {
	eachSize(b, func(b *testing.B, n, size int) {
		dbs := openBoth(b, warmOptions())
		var calls [2]func(int)
		for i, db := range dbs {
			fillSized(b, db, n, size)
			if err := db.Compact(b.Context(), stoat.CompactOptions{}); err != nil {
				b.Fatal(err)
			}
			var key []byte
			calls[i] = func(round int) {
				rng := rand.New(rand.NewPCG(uint64(round), 1))
				for range 100 {
					key = benchKey(key, int(rng.Uint64N(uint64(n))))
					if err := db.View(func(tx stoat.Txn) error {
						v, err := tx.Get(key)
						if err == nil && len(v) != size {
							err = fmt.Errorf("%d bytes", len(v))
						}
						return err
					}); err != nil {
						b.Fatal(err)
					}
				}
			}
			for round := range 20_000 {
				calls[i](round) // everything becomes warm
			}
		}
		inTurns(b, 100, calls[0], calls[1])
	})
}

// BenchmarkEncryption_Scan reads 1000 keys and their values, from a random key on.
func BenchmarkEncryption_Scan(b *testing.B) {
	eachSize(b, func(b *testing.B, n, size int) {
		dbs := openBoth(b, warmOptions())
		var calls [2]func(int)
		for i, db := range dbs {
			fillSized(b, db, n, size)
			if err := db.Compact(b.Context(), stoat.CompactOptions{}); err != nil {
				b.Fatal(err)
			}
			var key []byte
			scan := func(from, most int) {
				key = benchKey(key, from)
				if err := db.View(func(tx stoat.Txn) error {
					seen, sum := 0, 0
					for _, v := range tx.Range(key, nil) {
						sum += int(v[0]) + int(v[len(v)-1])
						if seen++; seen == most {
							return nil
						}
					}
					return fmt.Errorf("%d keys: %w", seen, tx.Err())
				}); err != nil {
					b.Fatal(err)
				}
			}
			scan(0, n)
			rng := rand.New(rand.NewPCG(1, 2))
			calls[i] = func(int) { scan(rng.IntN(n-1000), 1000) }
		}
		inTurns(b, 1000, calls[0], calls[1])
	})
}

// BenchmarkEncryption_Load fills new databases and closes them.
func BenchmarkEncryption_Load(b *testing.B) {
	eachSize(b, func(b *testing.B, n, size int) {
		load := func(encrypted bool) func(int) {
			return func(int) {
				o := warmOptions()
				o.Keys = testkit.KeysIf(encrypted)
				db, err := stoat.Open(b.TempDir(), &o)
				if err != nil {
					b.Fatal(err)
				}
				fillSized(b, db, n, size)
				if err := db.Compact(b.Context(), stoat.CompactOptions{}); err != nil {
					b.Fatal(err)
				}
				if err := db.Close(); err != nil {
					b.Fatal(err)
				}
			}
		}
		inTurns(b, float64(n), load(false), load(true))
	})
}

// BenchmarkEncryption_FirstGet reads keys of a database that was just opened, so that
// its pages are in the page cache, and not in the process. One call reads 10.
func BenchmarkEncryption_FirstGet(b *testing.B) {
	eachSize(b, func(b *testing.B, n, size int) {
		var calls [2]func(int)
		for i := range calls {
			o := warmOptions()
			o.Keys = testkit.KeysIf(i == 1)
			dir := b.TempDir()
			open := func() *stoat.DB {
				db, err := stoat.Open(dir, &o)
				if err != nil {
					b.Fatal(err)
				}
				return db
			}
			db := open()
			fillSized(b, db, n, size)
			if err := db.Compact(b.Context(), stoat.CompactOptions{}); err != nil {
				b.Fatal(err)
			}
			var key []byte
			calls[i] = func(round int) {
				if round%100 == 0 {
					if err := db.Close(); err != nil {
						b.Fatal(err)
					}
					db = open()
				}
				for j := range 10 {
					key = benchKey(key, (10*round+j)*7919%n)
					if err := db.View(func(tx stoat.Txn) error { _, err := tx.Get(key); return err }); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.Cleanup(func() { _ = db.Close() })
		}
		inTurns(b, 10, calls[0], calls[1])
	})
}
