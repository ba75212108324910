package sorted_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/sorted"
	"github.com/stoatdb/stoat/vfs"
)

// BenchmarkIngest compares an ingest of a file with one of the same entries from memory.
// The values have 128 bytes. Those of "noise" do not compress, and those of "text" do.
// Opening and closing the database is not part of the time.
func BenchmarkIngest(b *testing.B) {
	const keys, size = 2_000_000, 128
	noise, text := make([]byte, 1<<20+size), bytes.Repeat([]byte("value of some bytes "), 7)[:size]
	for i, rng := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(rng.Uint32())
	}
	for _, kind := range []string{"noise", "text"} {
		entries := func(yield func(stoat.Entry, error) bool) {
			key := []byte("key-0000000000000000")
			for i := range keys {
				for at, n := len(key)-1, i; n > 0; at, n = at-1, n/10 {
					key[at] = '0' + byte(n%10)
				}
				value := text
				if kind == "noise" {
					at := i * 7919 % (1 << 20)
					value = noise[at : at+size]
				}
				if !yield(stoat.Entry{Key: key, Value: value}, nil) {
					return
				}
			}
		}
		b.Run(kind, func(b *testing.B) { benchIngest(b, keys, entries) })
	}
}

// writeFile writes entries to a file.
func writeFile(b *testing.B, fs vfs.FS, name string, entries iter.Seq2[stoat.Entry, error]) {
	file, err := fs.Create(name, vfs.CatNone)
	if err != nil {
		b.Fatal(err)
	}
	to := bufio.NewWriterSize(io.NewOffsetWriter(file, 0), 1<<20)
	w, err := sorted.NewWriter(to, sorted.Options{})
	for e := range entries {
		if err == nil {
			err = w.Add(sorted.Entry{Key: e.Key, Value: e.Value})
		}
	}
	if err == nil {
		err = w.Finish()
	}
	if err == nil {
		err = to.Flush()
	}
	if err == nil {
		err = file.SyncData()
	}
	if err != nil || file.Close() != nil {
		b.Fatal(err)
	}
}

// benchIngest ingests the entries in both ways.
func benchIngest(b *testing.B, keys int, entries iter.Seq2[stoat.Entry, error]) {
	fs, dir := vfs.OS(), b.TempDir()
	name := fs.Join(dir, "file")
	writeFile(b, fs, name, entries)
	for _, how := range []string{"memory", "file"} {
		b.Run(how, func(b *testing.B) {
			n := 0
			for b.Loop() {
				b.StopTimer()
				n++
				db, err := stoat.Open(fs.Join(b.TempDir(), "db"), nil)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if how == "file" {
					_, err = sorted.Ingest(b.Context(), db, fs, []string{name}, stoat.IngestOptions{})
				} else {
					_, err = db.IngestEntries(b.Context(), entries, stoat.IngestOptions{})
				}
				b.StopTimer()
				if err := errors.Join(err, db.Close()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(keys)*float64(n)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}
