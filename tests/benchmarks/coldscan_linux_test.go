package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
)

// BenchmarkColdScan scans a database of which nothing is in the memory of the system, and
// reads all bytes of the values. "sorted" was loaded in the order of the keys, so each value
// file has a range of keys. "random" was not, so the scan goes through many value files at
// once.
func BenchmarkColdScan(b *testing.B) {
	for _, data := range []struct{ size, keys int }{{1 << 10, 600_000}, {16 << 10, 40_000}} {
		for _, order := range []string{"sorted", "random"} {
			b.Run(fmt.Sprintf("%d/%s", data.size, order), func(b *testing.B) {
				dir := filepath.Join(b.TempDir(), "db")
				fillInOrder(b, dir, data.keys, data.size, order == "random")
				var took time.Duration
				for range b.N {
					forgetFiles(b, dir)
					db := openAt(b, dir, stoat.Options{ReadOnly: true})
					took += scanPass(b, db, data.keys, true)
					closeBench(b, db)
				}
				b.ReportMetric(float64(took)/float64(b.N*data.keys), "ns/key")
			})
		}
	}
}

// fillInOrder makes a database of n keys, which are written in order or at random. Its files
// are on the device.
func fillInOrder(b *testing.B, dir string, n, size int, random bool) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if random {
		order = rng.Perm(n)
	}
	db := openAt(b, dir, stoat.Options{})
	noise, value := rand.NewChaCha8([32]byte{1}), make([]byte, size)
	for len(order) > 0 {
		some := order[:min(100, len(order))]
		order = order[len(some):]
		if err := db.Update(func(tx stoat.Txn) error {
			for _, i := range some {
				_, _ = noise.Read(value) // it never fails
				if err := tx.Set(benchKey(nil, i), value); err != nil {
					return err
				}
			}
			return nil
		}, stoat.WithDurability(stoat.Buffered)); err != nil {
			b.Fatal(err)
		}
	}
	closeBench(b, db)
	syncFiles(b, dir)
}
