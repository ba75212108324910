package steps

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
)

// BenchmarkCollect collects an eighth of the values in eight files, which lie in the
// order of their keys or mixed. It reports what the collection reads of tables, in
// parts of their size, and of value files, in parts of what is live. One operation is
// all of that.
func BenchmarkCollect(b *testing.B) {
	for _, mixed := range []bool{false, true} {
		b.Run(fmt.Sprintf("mixed=%v", mixed), func(b *testing.B) {
			var tables, values float64
			for range b.N {
				b.StopTimer()
				t, v := benchCollect(b, mixed)
				tables, values = tables+t, values+v
			}
			b.ReportMetric(tables/float64(b.N), "tables-read")
			b.ReportMetric(values/float64(b.N), "values-read")
		})
	}
}

const (
	collectKeys  = 256 << 10
	collectFiles = 8
)

// benchCollect makes a database and collects its garbage while the timer runs.
func benchCollect(b *testing.B, mixed bool) (tablesRead, valuesRead float64) {
	disk := faultfs.New(vfs.OS())
	db, err := inside.Open(filepath.Join(b.TempDir(), "db"),
		&stoat.Options{FS: disk, Durability: stoat.Buffered, MemtableSize: 256 << 20}, work.Executor{Manual: true})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	order, value := rng.Perm(collectKeys), make([]byte, 1<<10)
	if !mixed {
		for i := range order {
			order[i] = i
		}
	}
	update := func(keys []int, write func(tx stoat.Txn, key []byte) error) {
		for ; len(keys) > 0; keys = keys[min(len(keys), 1000):] {
			if err := db.Update(func(tx stoat.Txn) error {
				for _, k := range keys[:min(len(keys), 1000)] {
					if err := write(tx, fmt.Appendf(nil, "key-%012d", k)); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		}
		if err := db.Engine.Commits.Rotate(true); err != nil {
			b.Fatal(err)
		}
		if _, err := db.Engine.Jobs.FlushNext(); err != nil {
			b.Fatal(err)
		}
	}
	for part := range collectFiles {
		update(order[part*collectKeys/collectFiles:(part+1)*collectKeys/collectFiles],
			func(tx stoat.Txn, key []byte) error { return tx.Set(key, value) })
	}
	update(rng.Perm(collectKeys)[:collectKeys/8], func(tx stoat.Txn, key []byte) error { return tx.Delete(key) })
	if err := mergeAll(db); err != nil {
		b.Fatal(err)
	}
	before := db.Stats()
	var tables, values atomic.Int64
	disk.Observe(func(op vfs.Op) {
		switch {
		case op.Kind == vfs.OpRead && op.Category == vfs.CatTable:
			tables.Add(op.Len)
		case op.Kind == vfs.OpRead && op.Category == vfs.CatValue:
			values.Add(op.Len)
		}
	})
	b.StartTimer()
	err = db.Collect(b.Context())
	b.StopTimer()
	disk.Observe(nil)
	after := db.Stats()
	if err != nil || before.ValueGarbage == 0 || after.ValueGarbage != 0 {
		b.Fatalf("of %d bytes of garbage %d are left: %v", before.ValueGarbage, after.ValueGarbage, err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	return float64(tables.Load()) / float64(before.TableBytes), float64(values.Load()) / float64(after.ValueBytes)
}

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
func valuesDB(b *testing.B, keys, size int) *inside.DB {
	b.Helper()
	db, err := inside.Open(filepath.Join(b.TempDir(), "db"), &stoat.Options{Durability: stoat.Buffered}, work.Executor{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	writeValues(b, db, keys, size, func(int) bool { return true })
	if err := db.Compact(context.Background(), stoat.CompactOptions{}); err != nil {
		b.Fatal(err)
	}
	return db
}

func valuesKey(i int) []byte { return fmt.Appendf(nil, "key-%012d", i) }

// writeValues writes the keys that are picked.
func writeValues(b *testing.B, db *inside.DB, keys, size int, pick func(i int) bool) {
	b.Helper()
	value := make([]byte, size)
	for from := 0; from < keys; from += 1000 {
		if err := db.Update(func(tx stoat.Txn) error {
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
			read := func(db *inside.DB, order []int, do func(i int, v []byte)) time.Duration {
				began := time.Now()
				if err := db.View(func(tx stoat.Txn) error {
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
			tx, err := apart.Begin(stoat.ReadOnly)
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
			if err := db.View(func(tx stoat.Txn) error {
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
		db.Engine.Collector.Collecting.Lock() // or the collector would free most of the garbage before the reads
		writeValues(b, db, keys, size, func(int) bool { return rng.IntN(2) == 0 })
		// To compact a range merges, and leaves the garbage. Lock ranks count per
		// goroutine.
		merged := make(chan error)
		go func() { merged <- db.Compact(context.Background(), stoat.CompactOptions{Lower: []byte("k")}) }()
		if err := <-merged; err != nil {
			b.Fatal(err)
		}
		db.Engine.Collector.Collecting.Unlock()
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
