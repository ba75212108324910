package table

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// masterKey is a key provider with one key.
type masterKey []byte

func (k masterKey) Current(context.Context) (string, []byte, error) { return "m", k, nil }
func (k masterKey) Key(context.Context, string) ([]byte, error)     { return k, nil }

// sealedDisk returns an encrypted view of a new disk, and its keys.
func sealedDisk(t testing.TB) (vfs.FS, *seal.Keys) {
	t.Helper()
	disk := memfs.New()
	if err := disk.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.Create(t.Context(), seal.Options{FS: disk, Dir: "/db", Provider: masterKey(bytes.Repeat([]byte{7}, seal.KeySize)),
		Clock: base.SystemClock{}, MaxAge: time.Hour, Random: rand.NewChaCha8([32]byte{1})})
	if err != nil {
		t.Fatal(err)
	}
	return keys.FS(disk), keys
}

const sealedPath = "/db/000001.table"

// buildSealed writes a table with entries to an encrypted disk.
func buildSealed(t testing.TB, fs vfs.FS, entries []base.Entry, opts WriterOptions) Properties {
	t.Helper()
	file, err := fs.Create(sealedPath, vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	props, err := build(file, entries, nil, opts)
	if err == nil {
		err = file.SyncData()
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return props
}

// openSealed opens the table of buildSealed.
func openSealed(t testing.TB, fs vfs.FS, props Properties, opts ReaderOptions) *Reader {
	t.Helper()
	file, err := fs.Open(sealedPath, vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(file, props.Size, "t", opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCrowded_MemoryMayBecomeCrowdedAndFreeWithinOneScan sets the limit of decrypted pages
// anew before each round of a scan.
func TestCrowded_MemoryMayBecomeCrowdedAndFreeWithinOneScan(t *testing.T) {
	t.Parallel()
	var entries []base.Entry
	for i := range 20_000 {
		entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "key%08d", i), Seq: 9, Meta: base.Meta{Kind: base.KindSet}, Value: fmt.Appendf(nil, "value %d of a crowded table", i)})
	}
	fs, keys := sealedDisk(t)
	props := buildSealed(t, fs, entries, WriterOptions{})
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0))
		r := openSealed(t, fs, props, ReaderOptions{})
		var got []base.Entry
		batch := iter.Batch{Want: 16 << rng.IntN(4)}
		reverse := seed%2 == 1
		it := r.NewIter(IterOptions{Reverse: reverse})
		it.Seek(nil)
		for {
			keys.Memory.SetLimit(int64(rng.IntN(2))) // 0 is no limit, and 1 is always reached
			if err := it.Fill(&batch); err != nil {
				t.Fatalf("seed %d, after %d entries: %v", seed, len(got), err)
			}
			if batch.N == 0 {
				break
			}
			for i := range batch.N {
				got = append(got, base.Entry{Key: bytes.Clone(batch.Entries[i].Key), Seq: batch.Entries[i].Seq, Value: batch.Entries[i].Value})
			}
		}
		if reverse {
			slices.Reverse(got)
		}
		if len(got) != len(entries) {
			t.Fatalf("seed %d: %d entries, want %d", seed, len(got), len(entries))
		}
		for i, e := range got {
			if compareEntries(e, entries[i]) != 0 || !bytes.Equal(e.Value, entries[i].Value) {
				t.Fatalf("seed %d, entry %d: %q at %d of %q", seed, i, e.Value, e.Seq, e.Key)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// repetitive returns n entries whose values compress.
func repetitive(n int) (entries []base.Entry) {
	value := bytes.Repeat([]byte("value "), 20)
	for i := range n {
		entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "key%08d", i), Seq: 9, Meta: base.Meta{Kind: base.KindSet}, Value: value})
	}
	return entries
}

// A block in the cache was verified before. To decrypt its stored form again would take longer
// than to decode it.
func TestCrowded_ACachedBlockIsNotDecryptedAgain(t *testing.T) {
	entries := repetitive(2000)
	fs, keys := sealedDisk(t)
	props := buildSealed(t, fs, entries, WriterOptions{Compression: codec.S2})
	cached := cache.New(1 << 20)
	defer cached.Close()
	keys.Memory.SetLimit(1) // always reached
	// allocations are of a get and of a seek. A read that decrypts allocates what it decrypts.
	allocations := func(c *cache.Cache, e *base.Entry) (get, seek float64) {
		r := openSealed(t, fs, props, ReaderOptions{Cache: c})
		var arena codec.Arena
		get = testing.AllocsPerRun(20, func() {
			arena.Reset()
			value, _, _, ok, err := r.Get(e.Key, hashOf(e.Key), 10, &arena)
			if err != nil || !ok || !bytes.Equal(value, e.Value) {
				t.Errorf("%q: %q, %v, %v", e.Key, value, ok, err)
			}
		})
		batch := iter.Batch{Want: 1}
		seek = testing.AllocsPerRun(20, func() {
			arena.Reset()
			it := r.NewIter(IterOptions{Arena: &arena})
			it.Seek(e.Key)
			if err := it.Fill(&batch); err != nil || batch.N != 1 || !bytes.Equal(batch.Entries[0].Value, e.Value) {
				t.Errorf("%q: %d entries, %v", e.Key, batch.N, err)
			}
		})
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		return get, seek
	}
	for _, e := range []base.Entry{entries[0], entries[1000]} {
		get, seek := allocations(nil, &e)
		cachedGet, cachedSeek := allocations(cached, &e)
		if cachedGet >= get || cachedSeek >= seek {
			t.Errorf("%q: %v and %v allocations of a get and a seek with a cache, %v and %v without", e.Key, cachedGet, cachedSeek, get, seek)
		}
	}
}

// BenchmarkCrowded reads random compressed values of a sealed table while nothing more may stay
// decrypted, from the cache and without one.
func BenchmarkCrowded(b *testing.B) {
	entries := repetitive(5000)
	fs, keys := sealedDisk(b)
	props := buildSealed(b, fs, entries, WriterOptions{Compression: codec.S2})
	keys.Memory.SetLimit(1)
	for name, size := range map[string]int64{"cached": 4 << 20, "uncached": 0} {
		b.Run(name, func(b *testing.B) {
			var c *cache.Cache
			if size > 0 {
				c = cache.New(size)
				defer c.Close()
			}
			r := openSealed(b, fs, props, ReaderOptions{Cache: c})
			var arena codec.Arena
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				arena.Reset()
				e := &entries[i*2903%len(entries)]
				if _, _, _, ok, err := r.Get(e.Key, hashOf(e.Key), 10, &arena); !ok || err != nil {
					b.Fatal(e.Key, ok, err)
				}
			}
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
