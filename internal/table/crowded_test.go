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
func sealedDisk(t *testing.T) (vfs.FS, *seal.Keys) {
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

// TestCrowded_MemoryMayBecomeCrowdedAndFreeWithinOneScan sets the limit of decrypted pages
// anew before each round of a scan.
func TestCrowded_MemoryMayBecomeCrowdedAndFreeWithinOneScan(t *testing.T) {
	t.Parallel()
	var entries []base.Entry
	for i := range 20_000 {
		entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "key%08d", i), Seq: 9, Meta: base.Meta{Kind: base.KindSet}, Value: fmt.Appendf(nil, "value %d of a crowded table", i)})
	}
	fs, keys := sealedDisk(t)
	file, err := fs.Create("/db/000001.table", vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	props, err := build(file, entries, nil, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := file.SyncData(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0))
		file, err := fs.Open("/db/000001.table", vfs.CatTable)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(file, props.Size, "t", ReaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
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
