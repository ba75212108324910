package benchmarks

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stoatdb/stoat"
)

// BenchmarkStream reads all values of 128 bytes of a database with an iterator and with
// Stream in turn, and reports the medians and how many times the rate of the iterator
// Stream reaches. Cold, the data is in the files only; warm, the system has it in memory.
// Both read each byte of a value's ends.
func BenchmarkStream(b *testing.B) {
	const keys = 2 << 20
	dir := filepath.Join(b.TempDir(), "db")
	fillFirstPass(b, dir, keys, 128)
	for _, cold := range []bool{true, false} {
		b.Run(map[bool]string{true: "cold", false: "warm"}[cold], func(b *testing.B) {
			var one, streamed stopwatch
			read := func(w *stopwatch, all func(db *stoat.DB)) {
				if cold {
					forgetFiles(b, dir)
				}
				db := openAt(b, dir, stoat.Options{MustExist: true})
				w.time(func() { all(db) })
				closeBench(b, db)
			}
			for range b.N {
				read(&one, func(db *stoat.DB) { benchWhole(b, db, stoat.IterOptions{}, keys) })
				read(&streamed, func(db *stoat.DB) { benchStream(b, db, keys) })
			}
			b.ReportMetric(one.median()/keys, "iterator-ns/key")
			b.ReportMetric(streamed.median()/keys, "stream-ns/key")
			b.ReportMetric(one.median()/streamed.median(), "times")
		})
	}
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
