package benchmarks

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs"
)

// The benchmarks of the foundation: what a transaction costs beside the disk,
// and how near a durable commit comes to the bare write and sync it consists
// of. `make bench` runs them; docs/benchmarks.md explains the figures.

func openBench(b *testing.B, o stoat.Options) *stoat.DB {
	b.Helper()
	db, err := stoat.Open(filepath.Join(b.TempDir(), "db"), &o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return db
}

// benchKey is the 22-byte key number k of the comparison with the peers.
func benchKey(dst []byte, k int) []byte {
	dst = append(dst[:0], "vsz=00128-k="...)
	var digits [10]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + k%10)
		k /= 10
	}
	return append(dst, digits[:]...)
}

// fillBench writes n keys with values of 128 bytes.
func fillBench(b *testing.B, db *stoat.DB, n int) {
	b.Helper()
	fillSized(b, db, n, 128)
}

// inMemtable keeps n keys of the benchmarks in one memtable.
func inMemtable() stoat.Options {
	return stoat.Options{Durability: stoat.Buffered, MemtableSize: 1 << 30}
}

func BenchmarkViewEmpty(b *testing.B) {
	db := openBench(b, inMemtable())
	nothing := func(stoat.Txn) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := db.View(nothing); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkViewGet(b *testing.B) {
	const n = 1_000_000
	db := openBench(b, inMemtable())
	fillBench(b, db, n)
	for _, c := range []struct {
		name string
		base int
	}{{"hit", 0}, {"miss", n}} {
		b.Run(c.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(3, 4))
			var key []byte
			found := 0
			get := func(tx stoat.Txn) error {
				if v, err := tx.Get(key); err == nil && len(v) == 128 {
					found++
				}
				return nil
			}
			b.ReportAllocs()
			rounds := 0
			for b.Loop() {
				key = benchKey(key, c.base+int(rng.Uint64N(n)))
				rounds++
				if err := db.View(get); err != nil {
					b.Fatal(err)
				}
			}
			if want := rounds * (1 - min(c.base, 1)); found != want {
				b.Fatalf("%d of %d keys found, want %d", found, rounds, want)
			}
		})
	}
}

// BenchmarkBlindBatch is the whole commit path without a sync, per key.
func BenchmarkBlindBatch(b *testing.B) {
	for _, perBatch := range []int{1, 10, 1000} {
		b.Run(fmt.Sprintf("keys=%d", perBatch), func(b *testing.B) {
			db := openBench(b, stoat.Options{Durability: stoat.Buffered})
			rng := rand.New(rand.NewPCG(5, 6))
			value := make([]byte, 128)
			var key []byte
			b.ReportAllocs()
			for done := 0; done < b.N; done += perBatch {
				err := db.Update(func(tx stoat.Txn) error {
					for range perBatch {
						key = benchKey(key, int(rng.Uint64N(1e9)))
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
			b.SetBytes(22 + 128)
		})
	}
}

// BenchmarkAsyncCommit commits single keys by one goroutine that waits for none of them. It
// reports the largest heap that it sees.
func BenchmarkAsyncCommit(b *testing.B) {
	for name, d := range map[string]stoat.Durability{"buffered": stoat.Buffered, "synced": stoat.Synced} {
		b.Run(name, func(b *testing.B) {
			db := openBench(b, stoat.Options{Durability: d})
			var ended sync.WaitGroup
			var memory runtime.MemStats
			heap, value := uint64(0), make([]byte, 128)
			for i := range b.N {
				tx, err := db.Begin(stoat.ReadWrite)
				if err == nil {
					err = tx.Set(benchKey(nil, i), value)
				}
				if err != nil {
					b.Fatal(err)
				}
				ended.Add(1)
				tx.CommitAsync(func(_ uint64, err error) {
					if err != nil {
						b.Error(err)
					}
					ended.Done()
				})
				if i%20_000 == 0 {
					runtime.ReadMemStats(&memory)
					heap = max(heap, memory.HeapAlloc)
				}
			}
			ended.Wait()
			b.ReportMetric(float64(heap)/1e6, "MB-heap")
		})
	}
}

// BenchmarkSyncedCommit commits one key durably, in turn with a bare write and
// sync of as many bytes to a file whose blocks were written before, and
// reports the ratio of the two.
func BenchmarkSyncedCommit(b *testing.B) {
	db := openBench(b, stoat.Options{})
	bare := newBareFile(b)
	value := make([]byte, 128)
	var key []byte
	commit := func(i int) {
		err := db.Update(func(tx stoat.Txn) error {
			key = benchKey(key, i)
			return tx.Set(key, value)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	commit(0)
	before := db.Stats().Log.BytesWritten
	commit(0)
	frame := db.Stats().Log.BytesWritten - before
	var commits, writes stopwatch
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		commits.time(func() { commit(i) })
		writes.time(func() { bare.write(b, frame) })
	}
	b.ReportMetric(commits.median(), "commit-ns")
	b.ReportMetric(writes.median(), "bare-ns")
	b.ReportMetric(commits.median()/writes.median(), "ratio")
	b.ReportMetric(float64(frame), "frame-bytes")
}

// bareFile is a file with written blocks that is overwritten and synced.
type bareFile struct {
	file vfs.File
	at   int64
	buf  [4096]byte
}

func newBareFile(b *testing.B) *bareFile {
	b.Helper()
	fs := vfs.OS()
	f, err := fs.Create(filepath.Join(b.TempDir(), "bare"), vfs.CatNone)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	if _, err := f.WriteAt(make([]byte, bareSize), 0); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return &bareFile{file: f}
}

const bareSize = 4 << 20

func (f *bareFile) write(b *testing.B, n int64) {
	if f.at+n > bareSize {
		f.at = 0
	}
	f.buf[0]++
	if _, err := f.file.WriteAt(f.buf[:n], f.at); err != nil {
		b.Fatal(err)
	}
	if err := f.file.SyncData(); err != nil {
		b.Fatal(err)
	}
	f.at += n
}

// BenchmarkSyncedCommitParallel is the rate of durable one-key commits by many
// goroutines.
func BenchmarkSyncedCommitParallel(b *testing.B) {
	for _, goroutines := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			db := openBench(b, stoat.Options{})
			value := make([]byte, 128)
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range goroutines {
				wg.Go(func() {
					var key []byte
					for {
						i := next.Add(1)
						if i > int64(b.N) {
							return
						}
						err := db.Update(func(tx stoat.Txn) error {
							key = benchKey(key, int(i))
							return tx.Set(key, value)
						})
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			s := db.Stats()
			b.ReportMetric(float64(s.Commits)/float64(max(s.Groups, 1)), "commits/group")
		})
	}
}

// BenchmarkScan iterates over a memtable of a million keys that were written
// in random order.
func BenchmarkScan(b *testing.B) {
	const n = 1_000_000
	db := openBench(b, inMemtable())
	fillBench(b, db, n)
	for _, o := range []stoat.IterOptions{{}, {KeysOnly: true}, {Reverse: true}} {
		b.Run(fmt.Sprintf("keysOnly=%v/reverse=%v", o.KeysOnly, o.Reverse), func(b *testing.B) {
			err := db.View(func(tx stoat.Txn) error {
				for range 8 { // they sort and merge; the benchmark is of the walk
					tx.Iterator(o).Close()
				}
				it := tx.Iterator(o)
				defer it.Close()
				b.ReportAllocs()
				var touched byte
				for b.Loop() {
					if !it.Next() && !it.First() {
						b.Fatal("the database is empty")
					}
					if v := it.Value(); len(v) > 0 {
						touched += v[0]
					}
				}
				return it.Err()
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
	b.Run("items", func(b *testing.B) {
		err := db.View(func(tx stoat.Txn) error {
			it := tx.Iterator(stoat.IterOptions{})
			defer it.Close()
			b.ReportAllocs()
			var touched byte
			for b.Loop() {
				if !it.Next() && !it.First() {
					b.Fatal("the database is empty")
				}
				v, err := it.Item().Value()
				if err != nil {
					return err
				}
				touched += v[0]
			}
			return it.Err()
		})
		if err != nil {
			b.Fatal(err)
		}
	})
	b.Run("seek10", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(7, 8))
		err := db.View(func(tx stoat.Txn) error {
			it := tx.Iterator(stoat.IterOptions{})
			defer it.Close()
			var key []byte
			b.ReportAllocs()
			for b.Loop() {
				key = benchKey(key, int(rng.Uint64N(n-20)))
				ok := it.Seek(key)
				for i := 0; i < 9 && ok; i++ {
					ok = it.Next()
				}
				if !ok {
					b.Fatal("ten keys were not there")
				}
			}
			return it.Err()
		})
		if err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkRecoverAFullMemtable opens what a kill leaves of a database whose
// memtable, of the default size, is all but full: all of it is in the log alone.
// The target is half a second.
func BenchmarkRecoverAFullMemtable(b *testing.B) {
	const n, full = 150_000, 30 << 20 // of 32 MiB
	dir, killed := filepath.Join(b.TempDir(), "db"), filepath.Join(b.TempDir(), "killed")
	db, err := stoat.Open(dir, &stoat.Options{Durability: stoat.Buffered})
	if err != nil {
		b.Fatal(err)
	}
	fillBench(b, db, n)
	if s := db.Stats(); s.Flushes > 0 || s.MemtableBytes < full {
		b.Fatalf("%d flushes, %d bytes in memtables: want none, and nearly 32 MiB", s.Flushes, s.MemtableBytes)
	}
	// What has reached the file system is what a killed process leaves.
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	var opens stopwatch
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), "again")
		if err := os.CopyFS(dir, os.DirFS(killed)); err != nil {
			b.Fatal(err)
		}
		opens.time(func() {
			if db, err = stoat.Open(dir, nil); err != nil {
				b.Fatal(err)
			}
		})
		if s := db.Stats(); s.MemtableBytes < full {
			b.Fatalf("%d bytes in memtables after recovery", s.MemtableBytes)
		}
		if err := errors.Join(db.Close(), os.RemoveAll(dir)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(opens.median()/1e6, "open-ms")
}

// BenchmarkOpen opens an empty database and closes it.
func BenchmarkOpen(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "db")
	var opens stopwatch
	for b.Loop() {
		var db *stoat.DB
		opens.time(func() {
			var err error
			if db, err = stoat.Open(dir, nil); err != nil {
				b.Fatal(err)
			}
		})
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(opens.median()/1e6, "open-ms")
}
