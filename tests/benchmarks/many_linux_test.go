package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stoatdb/stoat"
)

// manyKeys is how many keys a round of BenchmarkGetMany looks up.
const manyKeys = 100

// BenchmarkGetMany looks up random keys with Get and with GetMany in turn, and reports the
// medians and their ratio. Warm, the data is in memory; cold, it is in the files only.
func BenchmarkGetMany(b *testing.B) {
	for _, c := range []struct {
		name       string
		keys, size int
		memory     bool
	}{{"memtable", 1 << 20, 128, true}, {"tables", 1 << 20, 128, false}, {"value-files", 1 << 18, 1 << 10, false}} {
		dir := filepath.Join(b.TempDir(), "db")
		o := stoat.Options{Durability: stoat.Buffered}
		if c.memory {
			o = inMemtable()
		}
		db := openAt(b, dir, o)
		fillSized(b, db, c.keys, c.size)
		if !c.memory {
			if err := db.Compact(b.Context(), stoat.CompactOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		benchWhole(b, db, stoat.IterOptions{}, c.keys) // everything is in memory and verified
		b.Run(c.name+"/warm", func(b *testing.B) {
			compareMany(b, c.keys, func() *stoat.DB { return db })
		})
		if !c.memory {
			b.Run(c.name+"/cold", func(b *testing.B) {
				compareMany(b, c.keys, func() *stoat.DB {
					closeBench(b, db)
					forgetFiles(b, dir)
					db = openAt(b, dir, o)
					return db
				})
			})
		}
		closeBench(b, db)
	}
}

func openAt(b *testing.B, dir string, o stoat.Options) *stoat.DB {
	b.Helper()
	db, err := stoat.Open(dir, &o)
	if err != nil {
		b.Fatal(err)
	}
	return db
}

func closeBench(b *testing.B, db *stoat.DB) {
	b.Helper()
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}

// compareMany looks up other keys in each round, in the database that next returns.
func compareMany(b *testing.B, n int, next func() *stoat.DB) {
	rng := rand.New(rand.NewPCG(7, 8))
	keys, values := make([][]byte, manyKeys), make([][]byte, 0, manyKeys)
	draw := func() {
		for i := range keys {
			keys[i] = benchKey(keys[i], rng.IntN(n))
		}
	}
	var one, many stopwatch
	look := func(w *stopwatch, db *stoat.DB, get func(tx stoat.Txn) error) {
		draw()
		values = values[:0]
		var err error
		w.time(func() { err = db.View(get) })
		if err != nil || slices.ContainsFunc(values, func(v []byte) bool { return v == nil }) {
			b.Fatal("a key is missing", err)
		}
	}
	ones := func(tx stoat.Txn) error {
		for _, key := range keys {
			v, err := tx.Get(key)
			if err != nil {
				return err
			}
			values = append(values, v)
			if v[0] != v[len(v)-1] {
				return fmt.Errorf("a wrong value of %s", key)
			}
		}
		return nil
	}
	together := func(tx stoat.Txn) (err error) {
		values, err = tx.GetMany(keys, values)
		for _, v := range values {
			if v[0] != v[len(v)-1] {
				return fmt.Errorf("a wrong value")
			}
		}
		return err
	}
	for b.Loop() {
		look(&one, next(), ones)
		look(&many, next(), together)
	}
	b.ReportMetric(one.median()/manyKeys, "get-ns")
	b.ReportMetric(many.median()/manyKeys, "many-ns")
	b.ReportMetric(many.median()/one.median(), "many/get")
}

// forgetFiles drops the files of a folder from the system's cache.
func forgetFiles(b *testing.B, dir string) {
	b.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		b.Fatal(err)
	}
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, e := syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, dontNeed, 0, 0); e != 0 {
			b.Fatal(e)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
