package behaviour

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// scattered makes a database whose values of a kilobyte lie in many value files, in an order
// that is not that of their keys, and opens it anew.
func scattered(t *testing.T, fs vfs.FS, keys int) *stoat.DB {
	t.Helper()
	opts := &stoat.Options{FS: fs, MemtableSize: 256 << 10, Durability: stoat.Buffered}
	db, err := stoat.Open(testkit.Dir, opts)
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(5, 9))
	for _, i := range rng.Perm(keys) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), scatteredValue(i)) }))
	}
	testkit.Must(t, db.Close())
	db, err = stoat.Open(testkit.Dir, opts)
	testkit.Must(t, err)
	return db
}

func scatteredValue(i int) []byte {
	return noise.Bytes(rand.New(rand.NewPCG(uint64(i), 1)), 1<<10)
}

// streamCold streams a scattered database, and returns the number of items, and of the reads
// and bytes of value files.
func streamCold(t *testing.T, keys int, choose func(key []byte) bool) (items int, reads, read int64) {
	t.Helper()
	disk := faultfs.New(memfs.New())
	db := scattered(t, disk, keys)
	var calls, length atomic.Int64
	disk.Observe(func(op vfs.Op) {
		if op.Category == vfs.CatValue && op.Kind == vfs.OpPopulate {
			calls.Add(1)
			length.Add(op.Len)
		}
	})
	seen := make(map[string]bool)
	_, err := db.Stream(context.Background(), stoat.StreamOptions{Choose: choose}, func(b *stoat.StreamBatch) error {
		for _, item := range b.Items {
			var i int
			if _, err := fmt.Sscanf(string(item.Key), "key-%d", &i); err != nil || !bytes.Equal(item.Value, scatteredValue(i)) {
				t.Errorf("the value of %q is not its own", item.Key)
			}
			seen[string(item.Key)] = true
		}
		return nil
	})
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
	return len(seen), calls.Load(), length.Load()
}

func TestStream_ReadsScatteredValuesTogether(t *testing.T) {
	t.Parallel()
	const keys = 4000
	if items, reads, _ := streamCold(t, keys, nil); items != keys || reads == 0 || reads > keys/16 {
		t.Errorf("%d items, %d reads of value files", items, reads)
	}
	one := func(key []byte) bool { return bytes.Equal(key, testkit.Key(keys/2)) }
	if items, _, read := streamCold(t, keys, one); items != 1 || read > 100<<10 {
		t.Errorf("%d items, %d bytes of value files were read for one value", items, read)
	}
}

// A program may stream what was written since it last looked.
func TestStream_SinceOpensNoTableWithoutNewerVersions(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db := scattered(t, disk, 1000)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{})) // nothing is left to merge
	testkit.Must(t, db.Close())
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.Must(t, err)
	defer db.Close()
	since := newest(t, db)
	update(t, db, func(tx stoat.Txn) error { return tx.Set([]byte("new"), []byte("value")) })
	var tables atomic.Int64
	disk.Observe(func(op vfs.Op) {
		if op.Category == vfs.CatTable {
			tables.Add(1)
		}
	})
	stream := func(since uint64) (keys []string) {
		o := stoat.StreamOptions{IterOptions: stoat.IterOptions{Since: since}}
		_, err := db.Stream(t.Context(), o, func(b *stoat.StreamBatch) error {
			for _, item := range b.Items {
				keys = append(keys, string(item.Key))
			}
			return nil
		})
		testkit.Must(t, err)
		return keys
	}
	if keys := stream(since); len(keys) != 1 || keys[0] != "new" || tables.Load() > 0 {
		t.Errorf("%d keys since %d, with %d calls for files of tables", len(keys), since, tables.Load())
	}
	if keys := stream(0); len(keys) != 1001 || tables.Load() == 0 {
		t.Errorf("%d keys in all, with %d calls for files of tables", len(keys), tables.Load())
	}
}
