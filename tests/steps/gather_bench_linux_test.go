//go:build amd64 || arm64

package steps

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/internal/work"
)

// BenchmarkScanOfScatteredValues walks over values that lie mixed in some files, and over
// the same values after they were gathered. It does so from memory, and from the device
// with the system's cache empty and the database just opened. The operation is one key.
func BenchmarkScanOfScatteredValues(b *testing.B) {
	for _, s := range []scattered{{600_000, 1 << 10, 16}, {600_000, 1 << 10, 100}, {40_000, 16 << 10, 100}} {
		b.Run(fmt.Sprintf("value=%d/files=%d", s.size, s.files), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "db")
			db := s.make(b, dir)
			s.bench(b, &db, dir, "scattered")
			for {
				plan, due := db.Engine.Jobs.PickGathering(true)
				if !due {
					break
				}
				if err := db.Engine.Jobs.Run(plan, db.Engine.Group.Err, nil); err != nil {
					b.Fatal(err)
				}
				if _, err := db.Engine.Collector.Tidy(true, new(collect.LiveSet)); err != nil {
					b.Fatal(err)
				}
			}
			s.bench(b, &db, dir, "gathered")
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// scattered is a database with one table, whose values lie in some files.
type scattered struct{ keys, size, files int }

func (s scattered) make(b *testing.B, dir string) *inside.DB {
	b.Helper()
	db := openToScatter(b, dir)
	rng := rand.New(rand.NewPCG(1, 2))
	order, value := rng.Perm(s.keys), make([]byte, s.size)
	for part := range s.files {
		keys := order[part*s.keys/s.files : (part+1)*s.keys/s.files]
		for len(keys) > 0 {
			n := min(len(keys), 1000)
			if err := db.Update(func(tx stoat.Txn) error {
				for _, k := range keys[:n] {
					noise.Fill(rng, value)
					if err := tx.Set(scatteredKey(k), value); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
			keys = keys[n:]
		}
		if err := db.Engine.Commits.Rotate(true); err != nil {
			b.Fatal(err)
		}
		if _, err := db.Engine.Jobs.FlushNext(); err != nil {
			b.Fatal(err)
		}
	}
	for {
		plan, due := compact.PickRange(db.Engine.Store.Version(), db.Engine.Jobs.Shape(work.Busy, db.Engine.Store.Horizon()), compact.Range{UpTo: base.SeqNumMax})
		if !due {
			return db
		}
		if err := db.Engine.Jobs.Run(plan, db.Engine.Group.Err, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func openToScatter(b *testing.B, dir string) *inside.DB {
	b.Helper()
	db, err := inside.Open(dir, &stoat.Options{Durability: stoat.Buffered, MemtableSize: 256 << 20}, work.Executor{Manual: true})
	if err != nil {
		b.Fatal(err)
	}
	return db
}

// bench measures a whole walk, where the operation is a key. It also measures
// ranges of rangeKeys keys from random keys on, where the operation is a range.
func (s scattered) bench(b *testing.B, db **inside.DB, dir, how string) {
	jumps := (*db).Stats().ValueJumps
	walk := func(b *testing.B, from, keys int) {
		left := keys
		if err := (*db).View(func(tx stoat.Txn) error {
			it := tx.Iterator(stoat.IterOptions{})
			defer it.Close()
			for ok := it.Seek(scatteredKey(from)); ok && left > 0; ok = it.Next() {
				if it.Value()[0]+it.Value()[len(it.Value())-1] == 1 {
					left++ // touch the value
				}
				left--
			}
			return it.Err()
		}); err != nil {
			b.Fatal(err)
		}
	}
	scan := func(b *testing.B) {
		for left := b.N; left > 0; left -= s.keys {
			walk(b, 0, left)
		}
		b.ReportMetric(float64(jumps), "jumps")
	}
	ranges := func(b *testing.B) {
		rng := rand.New(rand.NewPCG(3, 4))
		for range b.N {
			walk(b, rng.IntN(s.keys-rangeKeys), rangeKeys)
		}
	}
	for _, c := range []struct {
		name string
		do   func(b *testing.B)
	}{{"scan", scan}, {"ranges", ranges}} {
		b.Run(how+"/"+c.name+"/warm", func(b *testing.B) {
			walk(b, 0, s.keys)
			b.ResetTimer()
			c.do(b)
		})
		b.Run(how+"/"+c.name+"/cold", func(b *testing.B) {
			b.StopTimer()
			if err := (*db).Close(); err != nil {
				b.Fatal(err)
			}
			forgetFiles(b, dir)
			*db = openToScatter(b, dir)
			b.StartTimer()
			c.do(b)
		})
	}
}

const rangeKeys = 10

func scatteredKey(k int) []byte { return fmt.Appendf(nil, "scattered-%08d", k) }

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
