package benchmarks

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
)

// BenchmarkFirstPass scans a database whose files are in the memory of the system, but
// of which the process has read nothing yet: it opens the database for each pass. The
// metric warm is that of a second pass. "whole" reads all bytes of the values, "ends"
// their first and last byte.
func BenchmarkFirstPass(b *testing.B) {
	for _, data := range []struct{ size, keys int }{{128, 500_000}, {1 << 10, 200_000}, {16 << 10, 20_000}} {
		b.Run(fmt.Sprint(data.size), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "db")
			fillFirstPass(b, dir, data.keys, data.size)
			for _, whole := range []bool{true, false} {
				name := "ends"
				if whole {
					name = "whole"
				}
				b.Run(name, func(b *testing.B) {
					var first, warm time.Duration
					for range b.N {
						db, err := stoat.Open(dir, &stoat.Options{MustExist: true, MemoryBudget: 1 << 30})
						if err != nil {
							b.Fatal(err)
						}
						first += scanPass(b, db, data.keys, whole)
						warm += scanPass(b, db, data.keys, whole)
						if err := db.Close(); err != nil {
							b.Fatal(err)
						}
					}
					n := float64(b.N * data.keys)
					b.ReportMetric(float64(first)/n, "first-ns/key")
					b.ReportMetric(float64(warm)/n, "warm-ns/key")
				})
			}
		})
	}
}

// fillFirstPass makes a compacted database of n keys.
func fillFirstPass(b *testing.B, dir string, n, size int) {
	b.Helper()
	db, err := stoat.Open(dir, nil)
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
	syncFiles(b, dir)
}

// syncFiles waits until the device has the files of a folder. What it still has to write would
// disturb reads.
func syncFiles(b *testing.B, dir string) {
	b.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range names {
		if f, err := os.Open(filepath.Join(dir, name.Name())); err == nil {
			_ = f.Sync()
			_ = f.Close()
		}
	}
}

var scanSum uint64

// scanPass reads all entries once and returns the time.
func scanPass(b *testing.B, db *stoat.DB, n int, whole bool) time.Duration {
	b.Helper()
	began, seen, sum := time.Now(), 0, uint64(0)
	err := db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{})
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			value := it.Value()
			if len(value) == 0 {
				return it.Err()
			}
			seen++
			if !whole {
				sum += uint64(value[0]) + uint64(value[len(value)-1])
				continue
			}
			for i := 0; i+64 <= len(value); i += 64 {
				sum += uint64(value[i])
			}
		}
		return it.Err()
	})
	scanSum += sum
	if err != nil || seen != n {
		b.Fatalf("%d of %d entries: %v", seen, n, err)
	}
	return time.Since(began)
}
