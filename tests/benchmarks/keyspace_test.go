package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// BenchmarkOpenKeyspaces opens a database with 1,000 keyspaces, and all of them. It
// reports the time of each part, and the memory that they take.
func BenchmarkOpenKeyspaces(b *testing.B) {
	const n = 1000
	dir := filepath.Join(b.TempDir(), "db")
	open := func() *stoat.DB {
		db, err := stoat.Open(dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		return db
	}
	each := func(db *stoat.DB) (all []*stoat.Keyspace) {
		for i := range n {
			ks, err := db.Keyspace(fmt.Sprint("keyspace ", i), nil)
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, ks)
		}
		return all
	}
	db := open()
	all := each(db)
	if err := db.Update(func(tx stoat.Txn) error {
		for _, ks := range all {
			if err := tx.In(ks).Set([]byte("key"), []byte("value")); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	var keyspaces time.Duration
	var grown uint64
	rounds := 0
	for b.Loop() {
		before := heap()
		db = open()
		started := time.Now()
		all = each(db)
		keyspaces += time.Since(started)
		grown += heap() - before
		rounds++
		runtime.KeepAlive(all)
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(keyspaces.Microseconds())/float64(rounds), "us/keyspaces")
	b.ReportMetric(float64(grown)/float64(rounds), "B/database")
}

// BenchmarkCreateKeyspace creates keyspaces beside many others, in memory: no device hides
// the time of the processor. A round creates 100 and begins anew.
func BenchmarkCreateKeyspace(b *testing.B) {
	const each = 100
	open := func(b *testing.B, disk *memfs.FS) *stoat.DB {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
		if err != nil {
			b.Fatal(err)
		}
		return db
	}
	create := func(b *testing.B, db *stoat.DB, kind string, n int) {
		for i := range n {
			if _, err := db.Keyspace(fmt.Sprintf("%s %05d", kind, i), nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	end := func(b *testing.B, db *stoat.DB) {
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
	for _, present := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("present=%d", present), func(b *testing.B) {
			disk := memfs.NewVolatile()
			db := open(b, disk)
			create(b, db, "present", present)
			end(b, db)
			b.ReportAllocs()
			rounds := 0
			for b.Loop() {
				b.StopTimer()
				db := open(b, disk.Clone())
				create(b, db, "present", 1) // the first call makes the handles of all
				b.StartTimer()
				create(b, db, "new", each)
				b.StopTimer()
				end(b, db)
				rounds++
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(rounds*each), "us/create")
		})
	}
}

// heap returns the live bytes of the heap.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkKeyspaceGet reads keys of the default keyspace and of others.
func BenchmarkKeyspaceGet(b *testing.B) {
	const n = 100_000
	db := openBench(b, inMemtable())
	short, err := db.Keyspace("short", nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 241 {
		if _, err := db.Keyspace(fmt.Sprint(i), nil); err != nil {
			b.Fatal(err)
		}
	}
	long, err := db.Keyspace("long", nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		ks   *stoat.Keyspace
	}{{"default", nil}, {"short", short}, {"long", long}} {
		if err := db.Update(func(tx stoat.Txn) error {
			var key []byte
			for i := range n {
				key = benchKey(key, i)
				if err := tx.In(c.ks).Set(key, make([]byte, 128)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(3, 4))
			var key []byte
			b.ReportAllocs()
			if err := db.View(func(tx stoat.Txn) error {
				tx = tx.In(c.ks)
				for b.Loop() {
					key = benchKey(key, rng.IntN(n))
					if _, err := tx.Get(key); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkDropKeyspace drops a keyspace of 64 MiB. It reports the time of the call,
// and how soon the space is free.
func BenchmarkDropKeyspace(b *testing.B) {
	db := openBench(b, stoat.Options{Durability: stoat.Buffered, MemtableSize: 8 << 20})
	var took, free time.Duration
	rounds := 0
	for b.Loop() {
		b.StopTimer()
		ks, err := db.Keyspace("victim", nil)
		if err != nil {
			b.Fatal(err)
		}
		fillKeyspace(b, db, ks, 64<<20)
		if err := db.Compact(b.Context(), stoat.CompactOptions{}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		started := time.Now()
		if err := db.DropKeyspace("victim"); err != nil {
			b.Fatal(err)
		}
		took += time.Since(started)
		for s := db.Stats(); s.TableBytes+s.ValueBytes > 1<<20; s = db.Stats() {
			time.Sleep(time.Millisecond)
		}
		free += time.Since(started)
		rounds++
	}
	b.ReportMetric(float64(took.Microseconds())/float64(rounds), "us/drop")
	b.ReportMetric(float64(free.Milliseconds())/float64(rounds), "ms/free")
}

// fillKeyspace writes so many bytes of values, half of them in value files.
func fillKeyspace(b *testing.B, db *stoat.DB, ks *stoat.Keyspace, bytes int) {
	b.Helper()
	large, small := make([]byte, 1024), make([]byte, 256)
	for written, i := 0, 0; written < bytes; {
		if err := db.Update(func(tx stoat.Txn) error {
			var key []byte
			for range 1000 {
				value := large
				if i%5 > 0 {
					value = small
				}
				key = benchKey(key, i)
				if err := tx.In(ks).Set(key, value); err != nil {
					return err
				}
				written += len(value)
				i++
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
}
