package behaviour

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
)

// The tests in this file run alone, because they measure the heap of the process. It is
// beside the memory budget.

// usedHeap returns the bytes of the heap that are in use.
func usedHeap() int64 {
	runtime.GC()
	runtime.GC() // also what pools kept
	return heapSize()
}

// compressedValues opens a database on a disk with n keys, whose values have 100 bytes and are
// compressed.
func compressedValues(t *testing.T, n int) *stoat.DB {
	t.Helper()
	db, err := stoat.Open(filepath.Join(t.TempDir(), "db"), &stoat.Options{MemoryBudget: 1 << 20, Compression: stoat.CompressionFast})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	value := make([]byte, 100)
	_, err = db.Ingest(t.Context(), func(yield func(key, value []byte) bool) {
		for i := range n {
			binary.BigEndian.PutUint64(value, uint64(i)*0x9e3779b97f4a7c15)
			if !yield(testkit.Key(i), value) {
				return
			}
		}
	}, stoat.IngestOptions{})
	testkit.Must(t, err)
	return db
}

func TestGetMany_CompressedValuesKeepNoWholeBlocks(t *testing.T) {
	const n, stride = 200_000, 4
	db := compressedValues(t, n)
	var keys [][]byte
	for i := 0; i < n; i += stride {
		keys = append(keys, testkit.Key(i))
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	values := make([][]byte, 0, len(keys))
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		before := usedHeap()
		values, err := tx.GetMany(keys, values)
		if err != nil {
			return err
		}
		grown, size := usedHeap()-before, int64(100*len(values))
		t.Logf("%d bytes of values take %d", size, grown)
		if grown > 4*size {
			t.Errorf("%d bytes of values take %d", size, grown)
		}
		runtime.KeepAlive(values)
		return nil
	}))
}

func TestStream_AFewOfManyCompressedValuesKeepOnlyThemselves(t *testing.T) {
	const n, stride = 200_000, 128
	db := compressedValues(t, n)
	before, grown, rng := usedHeap(), int64(0), rand.New(rand.NewPCG(1, 2))
	o := stoat.StreamOptions{Workers: 1, Choose: func(key []byte) bool { return key[len(key)-1]%2 == 0 && rng.IntN(stride/2) == 0 }}
	_, err := db.Stream(t.Context(), o, func(b *stoat.StreamBatch) error {
		grown = max(grown, usedHeap()-before)
		runtime.KeepAlive(b)
		return nil
	})
	testkit.Must(t, err)
	t.Logf("the heap grows by %d bytes", grown)
	if grown == 0 || grown > 12<<20 {
		t.Errorf("the heap grows by %d bytes", grown)
	}
}

func TestFeed_KeepsNothingOfALargeTransactionAfterIt(t *testing.T) {
	db, err := stoat.Open(filepath.Join(t.TempDir(), "db"), &stoat.Options{MemoryBudget: 1 << 20, ChangeRetention: 1 << 30})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, db.Close()) }()
	last := 0
	set := func(n int) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for range n {
				if err := tx.Set(testkit.Key(last), make([]byte, 20)); err != nil {
					return err
				}
				last++
			}
			return nil
		}))
	}
	set(1)
	set(200_000)
	set(1)
	// No background work runs beside the measurements.
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	var heap []int64
	for c, err := range db.Subscribe(t.Context(), feed.Options{}) {
		testkit.Must(t, err)
		for _, err := range c.Changes {
			testkit.Must(t, err)
		}
		if heap = append(heap, usedHeap()); len(heap) == 4 {
			break
		}
		if len(heap) == 3 {
			set(1) // the feed reads the log anew for it
		}
	}
	grown := heap[3] - heap[0]
	t.Logf("the heap grows by %d bytes, and after the transaction by %d", heap[1]-heap[0], grown)
	if grown > 1<<20 {
		t.Errorf("the feed keeps %d bytes of a transaction that it has delivered", grown)
	}
}

func TestBatch_RangeDeletionsTakeAboutItsSize(t *testing.T) {
	const size = 8 << 20
	db := testkit.OpenMem(t)
	b := db.NewBatch(stoat.BatchOptions{Size: size})
	defer b.Discard()
	before, n := usedHeap(), 0
	for ; ; n++ {
		if n%5000 == 4999 {
			if grown := usedHeap() - before; grown > 2*size {
				t.Fatalf("%d range deletions take %d bytes", n, grown)
			}
		}
		err := b.DeleteRange(testkit.Key(2*n), testkit.Key(2*n+1))
		if errors.Is(err, stoat.ErrBatchTooLarge) {
			break
		}
		testkit.Must(t, err)
	}
	t.Logf("%d range deletions", n)
	if n < 5000 {
		t.Errorf("%d range deletions fill the batch", n)
	}
}

// Values of 2 MiB in random order. Each read of one of them measures the heap.
func TestBulkLoad_ARunOfLargeValuesTakesLittleMoreThanAValue(t *testing.T) {
	const n, size, memory = 34, 2 << 20, 4 << 20
	faults := faultfs.New(vfs.OS())
	db, err := stoat.Open(filepath.Join(t.TempDir(), "db"), &stoat.Options{FS: faults, MemoryBudget: 16 << 20})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, db.Close()) }()
	before, grown := usedHeap(), int64(0)
	faults.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpRead && op.Category == vfs.CatTable && op.Len >= size {
			grown = max(grown, usedHeap()-before)
		}
	})
	rng, value := rand.New(rand.NewPCG(1, 2)), make([]byte, size)
	done, err := db.BulkLoad(context.Background(), func(yield func(stoat.Entry, error) bool) {
		for _, i := range rng.Perm(n) {
			binary.BigEndian.PutUint64(value, uint64(i))
			if !yield(stoat.Entry{Key: testkit.Key(i), Value: value}, nil) {
				return
			}
		}
	}, stoat.IngestOptions{Memory: memory})
	faults.Observe(nil)
	testkit.Must(t, err)
	t.Logf("the heap grows by %d bytes", grown)
	if done.Entries != n || grown == 0 || grown > 3*memory+4*size {
		t.Errorf("%d entries were loaded, and the heap grows by %d bytes", done.Entries, grown)
	}
}
