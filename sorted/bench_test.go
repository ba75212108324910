package sorted_test

import (
	"bytes"
	"fmt"
	"iter"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/sorted"
	"github.com/stoatdb/stoat/vfs"
)

// BenchmarkIngest compares an ingest of files with one of the same entries from memory.
func BenchmarkIngest(b *testing.B) {
	const keys = 400_000
	value := bytes.Repeat([]byte("value of 108 bytes "), 6)[:108]
	entries := func(yield func(stoat.Entry, error) bool) {
		var key []byte
		for i := range keys {
			key = fmt.Appendf(key[:0], "key-%016d", i)
			if !yield(stoat.Entry{Key: key, Value: value}, nil) {
				return
			}
		}
	}
	fs, dir := vfs.OS(), b.TempDir()
	name := fs.Join(dir, "file")
	file, err := fs.Create(name, vfs.CatNone)
	if err != nil {
		b.Fatal(err)
	}
	var to bytes.Buffer
	w, err := sorted.NewWriter(&to, sorted.Options{})
	for e := range entries {
		if err == nil {
			err = w.Add(sorted.Entry{Key: e.Key, Value: e.Value})
		}
	}
	if err == nil {
		err = w.Finish()
	}
	if err == nil {
		_, err = file.WriteAt(to.Bytes(), 0)
	}
	if err != nil || file.Close() != nil {
		b.Fatal(err)
	}
	for _, how := range []string{"memory", "file"} {
		b.Run(how, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n++
				db, err := stoat.Open(fs.Join(b.TempDir(), fmt.Sprint(n)), nil)
				if err != nil {
					b.Fatal(err)
				}
				if how == "file" {
					_, err = sorted.Ingest(b.Context(), db, fs, []string{name}, stoat.IngestOptions{})
				} else {
					_, err = db.IngestEntries(b.Context(), iter.Seq2[stoat.Entry, error](entries), stoat.IngestOptions{})
				}
				if err != nil || db.Close() != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(keys*float64(n)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}
