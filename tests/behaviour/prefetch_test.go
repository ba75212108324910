package behaviour

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// valuesApart fills a database, all of it in tables and value files, with keys
// whose values are stored apart, every third one inline, and opens it anew.
func valuesApart(t *testing.T, fs vfs.FS, keys int) *stoat.DB {
	t.Helper()
	opts := &stoat.Options{FS: fs, MemtableSize: 256 << 10, Durability: stoat.Buffered}
	db, err := stoat.Open(testkit.Dir, opts)
	testkit.Must(t, err)
	for i := range keys {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), apartValue(i)) }))
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	db, err = stoat.Open(testkit.Dir, opts)
	testkit.Must(t, err)
	return db
}

func apartValue(i int) []byte {
	if i%3 == 0 {
		return testkit.Key(i)
	}
	return bytes.Repeat(testkit.Key(i), 100)
}

// mustSeeAll iterates over all keys and compares what it sees of the values
// at every look-th of them.
func mustSeeAll(t *testing.T, db *stoat.DB, keys, look int, o stoat.IterOptions) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(o)
		defer it.Close()
		n := 0
		for it.Next() {
			i := n
			if o.Reverse {
				i = keys - 1 - n
			}
			if !bytes.Equal(it.Key(), testkit.Key(i)) {
				t.Fatalf("key %q comes, want %q", it.Key(), testkit.Key(i))
			}
			if n%look == 0 && !bytes.Equal(it.Value(), apartValue(i)) {
				t.Fatalf("the value of %q has %d bytes, which are not its own (%v)", it.Key(), len(it.Value()), it.Err())
			}
			n++
		}
		if n != keys {
			t.Fatalf("%d keys, want %d", n, keys)
		}
		return it.Err()
	}))
}

func TestPrefetch_ValuesBelongToTheirKeysHoweverReached(t *testing.T) {
	t.Parallel()
	const keys = 700
	db := valuesApart(t, memfs.New(), keys)
	for _, o := range []stoat.IterOptions{{}, {Reverse: true}, {Prefetch: -1}, {Prefetch: 1000, Reverse: true}} {
		for _, look := range []int{1, 2, 17, 50} {
			mustSeeAll(t, db, keys, look, o) // the first time cold, then warm
		}
	}
	testkit.Must(t, db.Close())
}

func TestPrefetch_ReadsTheNextValuesTogetherUnlessInMemory(t *testing.T) {
	t.Parallel()
	const keys = 700
	disk := faultfs.New(memfs.New())
	db := valuesApart(t, disk, keys)
	var asked atomic.Int64
	disk.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpWillNeed {
			asked.Add(1)
		}
	})
	mustSeeAll(t, db, keys, keys, stoat.IterOptions{Prefetch: -1})
	if n := asked.Swap(0); n > 0 {
		t.Errorf("without prefetching, %d requests", n)
	}
	mustSeeAll(t, db, keys, 1, stoat.IterOptions{})
	if n := asked.Swap(0); n == 0 || n > keys/50 {
		t.Errorf("%d requests for %d values in order", n, keys)
	}
	mustSeeAll(t, db, keys, 1, stoat.IterOptions{})
	if n := asked.Swap(0); n > 0 {
		t.Errorf("%d requests for values in memory", n)
	}
	testkit.Must(t, db.Close())
}

func TestPrefetch_WalkOverKeysAloneTouchesNoValueFile(t *testing.T) {
	t.Parallel()
	const keys = 700
	disk := memfs.New()
	db := valuesApart(t, disk, keys)
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".values") {
			testkit.Must(t, disk.Remove(disk.Join(testkit.Dir, name)))
		}
	}
	for _, o := range []stoat.IterOptions{{KeysOnly: true}, {KeysOnly: true, Reverse: true}, {}} {
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			it := tx.Iterator(o)
			defer it.Close()
			n, missed := 0, 0
			for it.Next() {
				if i := n; o.Reverse && !bytes.Equal(it.Key(), testkit.Key(keys-1-i)) || !o.Reverse && !bytes.Equal(it.Key(), testkit.Key(i)) {
					t.Fatalf("%+v: key %d is %q", o, i, it.Key())
				}
				if n++; !o.KeysOnly && it.Value() == nil {
					missed++
					break
				}
			}
			if err := it.Err(); o.KeysOnly && (n != keys || err != nil) || !o.KeysOnly && (missed == 0 || err == nil) {
				t.Errorf("%+v: %d keys, %v", o, n, err)
			}
			return nil
		}))
	}
	testkit.Must(t, db.Close())
}

func TestPrefetch_ScanAllocatesNothingForAKey(t *testing.T) {
	const keys = 700
	db := valuesApart(t, memfs.New(), keys)
	mustSeeAll(t, db, keys, 1, stoat.IterOptions{})
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{})
		defer it.Close()
		size := 0
		perScan := testing.AllocsPerRun(10, func() {
			for ok := it.First(); ok; ok = it.Next() {
				size += len(it.Value())
			}
		})
		// Invariants copy what is lent.
		if perScan > keys/100 && !invariant.Enabled || size == 0 {
			t.Errorf("a scan of %d keys makes %v allocations", keys, perScan)
		}
		return it.Err()
	}))
	testkit.Must(t, db.Close())
}
