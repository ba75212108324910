package stoat

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// touch reads all of the bytes, eight at a time.
func touch(b []byte) (sum uint64) {
	for ; len(b) >= 8; b = b[8:] {
		sum += binary.LittleEndian.Uint64(b)
	}
	return sum
}

var touched uint64

// valuesDB makes a merged database of values of one length, in the order of the
// keys.
func valuesDB(b *testing.B, keys, size int) *DB {
	b.Helper()
	db, err := Open(filepath.Join(b.TempDir(), "db"), &Options{Durability: Buffered})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	writeValues(b, db, keys, size, func(int) bool { return true })
	if err := db.Compact(context.Background(), CompactOptions{}); err != nil {
		b.Fatal(err)
	}
	return db
}

func valuesKey(i int) []byte { return fmt.Appendf(nil, "key-%012d", i) }

// writeValues writes the keys that are picked.
func writeValues(b *testing.B, db *DB, keys, size int, pick func(i int) bool) {
	b.Helper()
	value := make([]byte, size)
	for from := 0; from < keys; from += 1000 {
		if err := db.Update(func(tx Txn) error {
			for i := from; i < min(from+1000, keys); i++ {
				if !pick(i) {
					continue
				}
				for j := range value {
					value[j] = byte(i * j)
				}
				if err := tx.Set(valuesKey(i), value); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWarmReadsOfValues reads all bytes of random values that lie apart from
// their keys. In turns it reads the same keys with values of 128 bytes beside them,
// and as many bytes of memory elsewhere. It reports how many times as long the first
// takes. The operation is one read of the first kind.
func BenchmarkWarmReadsOfValues(b *testing.B) {
	for _, c := range []struct{ size, keys int }{{1 << 10, 64 << 10}, {16 << 10, 8 << 10}} {
		b.Run(fmt.Sprintf("size=%d", c.size), func(b *testing.B) {
			apart, beside := valuesDB(b, c.keys, c.size), valuesDB(b, c.keys, 128)
			memory := make([]byte, c.keys*c.size)
			for i := range memory {
				memory[i] = byte(i)
			}
			names := make([][]byte, c.keys)
			for i := range names {
				names[i] = valuesKey(i)
			}
			read := func(db *DB, order []int, do func(i int, v []byte)) time.Duration {
				began := time.Now()
				if err := db.View(func(tx Txn) error {
					for _, i := range order {
						v, err := tx.Get(names[i])
						if err != nil {
							return err
						}
						do(i, v)
					}
					return nil
				}); err != nil {
					b.Fatal(err)
				}
				return time.Since(began)
			}
			whole := func(_ int, v []byte) { touched += touch(v) }
			twice := func(i int, v []byte) { touched += touch(v[:8]) + touch(memory[i*c.size:(i+1)*c.size]) }
			rng := rand.New(rand.NewPCG(1, 2))
			round := func(n int) (long, short time.Duration) {
				order := make([]int, n)
				for i := range order {
					order[i] = rng.IntN(c.keys)
				}
				return read(apart, order, whole), read(beside, order, twice)
			}
			for range 4 { // warm
				round(c.keys)
			}
			tx, err := apart.Begin(ReadOnly)
			if err != nil {
				b.Fatal(err)
			}
			allocs := testing.AllocsPerRun(1000, func() {
				if _, err := tx.Get(names[rng.IntN(c.keys)]); err != nil {
					b.Fatal(err)
				}
			})
			tx.Discard()
			var long, short time.Duration
			var ratios []float64
			b.ResetTimer()
			for done := 0; done < b.N; done += 1000 {
				l, s := round(1000)
				long, short = long+l, short+s
				ratios = append(ratios, float64(l)/float64(s))
			}
			slices.Sort(ratios)
			n := float64(len(ratios) * 1000)
			b.ReportMetric(float64(long)/n, "ns/read")
			b.ReportMetric(float64(short)/n, "ns/read-128+touch")
			b.ReportMetric(ratios[len(ratios)/2], "times")
			b.ReportMetric(allocs, "allocs/read")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkReadsWhileCollecting reads random values of a kilobyte, in turns while half
// of all are collected and while no job runs. It reports how many times as long the
// slowest thousandth takes. The operation is one collection.
func BenchmarkReadsWhileCollecting(b *testing.B) {
	const keys, size = 128 << 10, 1 << 10
	db := valuesDB(b, keys, size)
	rng := rand.New(rand.NewPCG(1, 2))
	read := func(until func() bool) (took []time.Duration) {
		for !until() {
			began := time.Now()
			if err := db.View(func(tx Txn) error {
				v, err := tx.Get(valuesKey(rng.IntN(keys)))
				touched += touch(v)
				return err
			}); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		return took
	}
	var quiet, collecting []time.Duration
	for range b.N {
		db.engine.Collector.Collecting.Lock() // or the collector would free most of the garbage before the reads
		writeValues(b, db, keys, size, func(int) bool { return rng.IntN(2) == 0 })
		// To compact a range merges, and leaves the garbage. Lock ranks count per
		// goroutine.
		merged := make(chan error)
		go func() { merged <- db.Compact(context.Background(), CompactOptions{Lower: []byte("k")}) }()
		if err := <-merged; err != nil {
			b.Fatal(err)
		}
		db.engine.Collector.Collecting.Unlock()
		done := make(chan error, 1)
		var failed error
		go func() { done <- db.Collect(context.Background()) }()
		began := time.Now()
		collecting = append(collecting, read(func() bool {
			select {
			case failed = <-done:
				return true
			default:
				return false
			}
		})...)
		took := time.Since(began)
		if failed != nil {
			b.Fatal(failed)
		}
		began = time.Now()
		quiet = append(quiet, read(func() bool { return time.Since(began) > took })...)
	}
	if db.Stats().Collections == 0 {
		b.Fatal("nothing was collected")
	}
	slowest := func(took []time.Duration) float64 {
		slices.Sort(took)
		return float64(took[len(took)*999/1000])
	}
	q, c := slowest(quiet), slowest(collecting)
	b.ReportMetric(q/1e3, "µs-p99.9-quiet")
	b.ReportMetric(c/1e3, "µs-p99.9-collecting")
	b.ReportMetric(c/q, "times")
	b.ReportMetric(float64(len(collecting)), "reads")
}
