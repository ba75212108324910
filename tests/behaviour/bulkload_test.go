package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// shuffled yields n entries of span keys in random order, and puts what must be there
// afterwards into want.
func shuffled(seed uint64, n, span, size int, want map[string]string) iter.Seq2[stoat.Entry, error] {
	return func(yield func(stoat.Entry, error) bool) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for i := range n {
			key := testkit.Key(rng.IntN(span))
			if i%7 == 0 {
				key = append([]byte{0xff, 0xff, 0}, key...)
			}
			value := bytes.Repeat(fmt.Appendf(nil, "%d ", i), 1+rng.IntN(size))
			want[string(key)] = string(value)
			if !yield(stoat.Entry{Key: key, Value: value}, nil) {
				return
			}
			clear(key)
			clear(value)
		}
	}
}

// wantAll demands that a transaction shows exactly the pairs.
func wantAll(t *testing.T, tx stoat.Txn, want map[string]string) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(want))
	i := 0
	for k, v := range tx.All() {
		if i == len(keys) || string(k) != keys[i] || string(v) != want[keys[i]] {
			t.Fatalf("entry %d is %q, with %.20q", i, k, v)
		}
		i++
	}
	if err := tx.Err(); err != nil || i != len(keys) {
		t.Fatalf("%d of %d entries, %v", i, len(keys), err)
	}
}

func TestBulkLoad_SortsInAnyMemoryAndTheLastOfEqualKeysCounts(t *testing.T) {
	t.Parallel()
	for name, change := range ingestOptions {
		for _, memory := range []int64{20 << 10, 0, 100 << 10}[:testkit.Raced(3, 1)] {
			t.Run(fmt.Sprint(name, memory), func(t *testing.T) {
				t.Parallel()
				fs := memfs.New()
				db := testkit.OpenOn(t, fs, change)
				home, err := db.Keyspace("home", nil)
				testkit.Must(t, err)
				for i, ks := range []*stoat.Keyspace{nil, home} {
					want := map[string]string{}
					done, err := db.BulkLoad(context.Background(), shuffled(uint64(i), 4000, 3000, 200, want), stoat.IngestOptions{Keyspace: ks, Memory: memory})
					testkit.Must(t, err)
					if done.Entries != int64(len(want)) || done.Version == 0 {
						t.Errorf("loaded %+v, want %d entries", done, len(want))
					}
					testkit.Must(t, db.View(func(tx stoat.Txn) error { wantAll(t, tx.In(ks), want); return nil }))
				}
				testkit.MustBeSound(t, db)
				testkit.Must(t, db.Close())
				db = testkit.OpenOn(t, fs, change)
				testkit.MustBeSound(t, db)
				testkit.Must(t, db.Close())
			})
		}
	}
}

// A crash in the middle leaves temporary files, which the next Open deletes.
func TestBulkLoad_LeavesNothingAfterAnErrorOrACrash(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	before := testkit.FilesOf(t, fs, testkit.Dir)
	broken := errors.New("broken")
	var crashed *memfs.FS
	_, err := db.BulkLoad(context.Background(), func(yield func(stoat.Entry, error) bool) {
		for e, err := range shuffled(1, 3000, 3000, 100, map[string]string{}) {
			if !yield(e, err) {
				return
			}
		}
		crashed = fs.Clone()
		yield(stoat.Entry{}, broken)
	}, stoat.IngestOptions{Memory: 50 << 10})
	testkit.WantError(t, "an error of the input", err, broken)
	wantSameFiles(t, fs, before)
	if len(testkit.FilesOf(t, crashed, testkit.Dir)) <= len(before) {
		t.Error("there were no temporary files")
	}
	db = testkit.OpenOn(t, crashed, nil)
	wantSameFiles(t, crashed, before)
	testkit.Must(t, db.View(func(tx stoat.Txn) error { wantAll(t, tx, nil); return nil }))
	testkit.Must(t, db.Close())
}

// A countingFS counts the bytes that are written to tables and value files.
type countingFS struct {
	vfs.FS
	bytes atomic.Int64
}

type countingFile struct {
	vfs.File
	bytes *atomic.Int64
}

func (c *countingFS) Create(name string, cat vfs.Category) (vfs.File, error) {
	f, err := c.FS.Create(name, cat)
	if err == nil && (cat == vfs.CatTable || cat == vfs.CatValue) {
		f = countingFile{f, &c.bytes}
	}
	return f, err
}

func (c countingFile) WriteAt(b []byte, off int64) (int, error) {
	c.bytes.Add(int64(len(b)))
	return c.File.WriteAt(b, off)
}

func TestBulkLoad_WritesAtMostThreeBytesPerByte(t *testing.T) {
	t.Parallel()
	fs := &countingFS{FS: memfs.New()}
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs})
	testkit.Must(t, err)
	const size = 128
	n := testkit.Raced(100_000, 25_000)
	rng := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, size)
	_, err = db.BulkLoad(context.Background(), func(yield func(stoat.Entry, error) bool) {
		for range n {
			for i := range value {
				value[i] = byte(rng.Uint32())
			}
			if !yield(stoat.Entry{Key: fmt.Appendf(nil, "key-%020d", rng.Uint64()), Value: value}, nil) {
				return
			}
		}
	}, stoat.IngestOptions{Memory: int64(testkit.Raced(8<<20, 2<<20))})
	testkit.Must(t, err)
	testkit.Must(t, db.Compact(context.Background(), stoat.CompactOptions{}))
	per := float64(fs.bytes.Load()) / float64(n*(size+24))
	t.Logf("%.2f bytes written per byte", per)
	if per > 3 {
		t.Errorf("%.2f bytes written per byte", per)
	}
	testkit.Must(t, db.Close())
}
