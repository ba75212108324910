package benchmarks

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stoatdb/stoat"
)

// ingestBytes is about how many bytes of keys and values the benchmarks of ingests write.
const ingestBytes = 512 << 20

// sortedPairs yields n keys in order, with values that no compression shortens.
func sortedPairs(n, size int) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		noise := make([]byte, 1<<20+size)
		for i, rng := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
			noise[i] = byte(rng.Uint32())
		}
		var key []byte
		for i := range n {
			key = benchKey(key, i)
			at := i * 7919 % (1 << 20)
			if !yield(key, noise[at:at+size]) {
				return
			}
		}
	}
}

// BenchmarkIngest writes sorted keys to an empty database in three ways: by an ingest,
// by transactions of 1,000 keys with a sync at the end, and as a plain file of as many
// bytes with a sync. The ingest should reach 0.8 of the plain file with values of 1 KiB,
// and 2.5 million keys a second with values of 128 bytes.
func BenchmarkIngest(b *testing.B) {
	for _, size := range []int{128, 1024} {
		n := ingestBytes / (size + 22)
		for _, way := range []struct {
			name string
			run  func(b *testing.B, n, size int)
		}{{"file", plainFile}, {"ingest", ingestOnce}, {"transactions", transactionsOnce}} {
			b.Run(fmt.Sprintf("value=%d/%s", size, way.name), func(b *testing.B) {
				b.SetBytes(int64(n) * int64(size+22))
				for b.Loop() {
					way.run(b, n, size)
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
			})
		}
	}
}

// timed runs write on an open database of its own. Only write counts.
func timed(b *testing.B, write func(db *stoat.DB) error) {
	b.StopTimer()
	dir := b.TempDir()
	db, err := stoat.Open(filepath.Join(dir, "db"), nil)
	if err == nil {
		b.StartTimer()
		err = write(db)
		b.StopTimer()
	}
	if err == nil {
		err = db.Close()
	}
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.StartTimer()
}

func ingestOnce(b *testing.B, n, size int) {
	timed(b, func(db *stoat.DB) error {
		done, err := db.Ingest(context.Background(), sortedPairs(n, size), stoat.IngestOptions{})
		b.ReportMetric(float64(done.Bytes)/float64(n*(size+22)), "written/byte")
		return err
	})
}

func transactionsOnce(b *testing.B, n, size int) {
	timed(b, func(db *stoat.DB) error {
		next, stop := iter.Pull2(sortedPairs(n, size))
		defer stop()
		for left := n; left > 0; left -= 1000 {
			err := db.Update(func(tx stoat.Txn) error {
				for range min(left, 1000) {
					k, v, _ := next()
					if err := tx.Set(k, v); err != nil {
						return err
					}
				}
				return nil
			}, stoat.WithDurability(stoat.Buffered))
			if err != nil {
				return err
			}
		}
		return db.Sync()
	})
}

func plainFile(b *testing.B, n, size int) {
	b.StopTimer()
	name := filepath.Join(b.TempDir(), "file")
	b.StartTimer()
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 1<<20)
	for k, v := range sortedPairs(n, size) {
		if buf = append(append(buf, k...), v...); len(buf) > 1<<20-size-22 {
			if _, err = f.Write(buf); err != nil {
				b.Fatal(err)
			}
			buf = buf[:0]
		}
	}
	if err = f.Sync(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	_, _ = f.Close(), os.Remove(name)
	b.StartTimer()
}
