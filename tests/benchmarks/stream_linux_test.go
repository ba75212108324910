package benchmarks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
)

// BenchmarkStream reads all values of a database with an iterator and with Stream in turn,
// and reports the medians and how many times the rate of the iterator Stream reaches. Cold,
// the data is in the files only; warm, the system has it in memory. Both read each end of a
// value. The file is the rate of a program that only reads the cold files, a mebibyte at a
// time by four goroutines: about the limit of the device. Gathered values lie in the order
// of their keys; others in as many files as there were flushes.
func BenchmarkStream(b *testing.B) {
	for _, data := range []struct {
		size, keys int
		gathered   bool
	}{{128, 2 << 20, true}, {1 << 10, 400_000, true}, {1 << 10, 400_000, false}, {16 << 10, 30_000, true}} {
		dir := filepath.Join(b.TempDir(), "db")
		if data.gathered {
			fillFirstPass(b, dir, data.keys, data.size)
		} else {
			db := openAt(b, dir, stoat.Options{})
			fillSized(b, db, data.keys, data.size)
			closeBench(b, db)
		}
		for _, cold := range []bool{true, false} {
			name := map[bool]string{true: "cold", false: "warm"}[cold]
			b.Run(fmt.Sprintf("value=%d,gathered=%t/%s", data.size, data.gathered, name), func(b *testing.B) {
				benchStreams(b, dir, data.keys, data.size, cold)
			})
		}
	}
}

func benchStreams(b *testing.B, dir string, keys, size int, cold bool) {
	var one, streamed, file stopwatch
	forget := func() {
		if cold {
			forgetFiles(b, dir)
		}
	}
	read := func(w *stopwatch, all func(db *stoat.DB)) {
		forget()
		db := openAt(b, dir, stoat.Options{MustExist: true})
		w.time(func() { all(db) })
		closeBench(b, db)
	}
	total := int64(0)
	for i := range 2 * b.N {
		iterate := func() { read(&one, func(db *stoat.DB) { benchWhole(b, db, stoat.IterOptions{}, keys) }) }
		if i%2 == 0 {
			iterate()
		}
		read(&streamed, func(db *stoat.DB) { benchStream(b, db, keys) })
		if i%2 == 1 {
			iterate()
		}
		forget()
		file.time(func() { total = readFiles(b, dir) })
	}
	rate := func(w *stopwatch) float64 { return float64(keys) * float64(size+22) / w.median() * 1e3 }
	b.ReportMetric(rate(&one), "iterator-MB/s")
	b.ReportMetric(rate(&streamed), "stream-MB/s")
	b.ReportMetric(float64(total)/file.median()*1e3, "file-MB/s")
	b.ReportMetric(one.median()/streamed.median(), "times")
}

// readFiles reads the files of a folder with four goroutines, and returns their length.
func readFiles(b *testing.B, dir string) (total int64) {
	b.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		b.Fatal(err)
	}
	const step = 1 << 20
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		var at atomic.Int64
		var readers sync.WaitGroup
		var length atomic.Int64
		for range 4 {
			readers.Go(func() {
				buf := make([]byte, step)
				for {
					n, err := f.ReadAt(buf, at.Add(step)-step)
					if length.Add(int64(n)); err != nil {
						return
					}
				}
			})
		}
		readers.Wait()
		total += length.Load()
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
	return total
}

// benchStream reads n keys by Stream.
func benchStream(b *testing.B, db *stoat.DB, n int) {
	b.Helper()
	seen := 0
	_, err := db.Stream(context.Background(), stoat.StreamOptions{}, func(batch *stoat.StreamBatch) error {
		for i := range batch.Items {
			v := batch.Items[i].Value
			if len(batch.Items[i].Key) == 0 || len(v) == 0 || v[0] != v[len(v)-1] {
				return fmt.Errorf("a wrong value of %q", batch.Items[i].Key)
			}
		}
		seen += len(batch.Items)
		return nil
	})
	if err != nil || seen != n {
		b.Fatal(seen, err)
	}
}
