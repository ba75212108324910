package behaviour

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestIterator_SharesNothingWithOthersOfItsTransaction(t *testing.T) {
	t.Parallel()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), Durability: stoat.Buffered})
	testkit.Must(t, err)
	for i := range 10 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), nil) }))
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		first, second := tx.Iterator(stoat.IterOptions{}), tx.Iterator(stoat.IterOptions{})
		first.Seek(testkit.Key(1))
		second.Seek(testkit.Key(2))
		first.Close()
		third := tx.Iterator(stoat.IterOptions{})
		third.Seek(testkit.Key(3))
		if first.Valid() || first.Next() {
			t.Error("a closed iterator moves")
		}
		for i, it := range []stoat.Iterator{second, third} {
			if !it.Valid() || string(it.Key()) != string(testkit.Key(2+i)) {
				t.Errorf("iterator %d is at %q", 1+i, it.Key())
			}
			it.Close()
		}
		return nil
	}))
	testkit.Must(t, db.Close())
}

// The iterator lends its key from memory that a search writes to.
func TestIterator_SeekToItsOwnKeyReadsFromThere(t *testing.T) {
	t.Parallel()
	for at := range 8 {
		db := testkit.OpenOn(t, memfs.New(), nil)
		testkit.SetKeys(t, db, 0, 20, 10, 1)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		it := tx.Iterator(stoat.IterOptions{})
		for range at + 1 {
			it.Next()
		}
		if !it.Seek(it.Key()) || !it.Next() || !bytes.Equal(it.Key(), testkit.Key(at+1)) {
			t.Fatalf("after seeking to key %d and one step the iterator is at %q", at, it.Key())
		}
		testkit.Must(t, tx.Set([]byte("other"), nil))
		testkit.SetKeys(t, db, at+1, at+2, 10, 2)
		if err := tx.Commit(); !errors.Is(err, stoat.ErrConflict) {
			t.Errorf("what was read at key %d has changed, and Commit returned %v", at+1, err)
		}
		testkit.Must(t, db.Close())
	}
}

func TestIterator_EmptyUpperBoundLeavesNothing(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	testkit.SetKeys(t, db, 0, 3, 10, 1)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		if it := tx.Iterator(stoat.IterOptions{Upper: []byte{}}); it.Next() {
			t.Errorf("%q is less than the empty key", it.Key())
		}
		return nil
	}))
	testkit.Must(t, db.Close())
}

// What a loop shows has been read: an error ends it before.
func TestIterator_LoopDoesNotShowAnUnreadableValue(t *testing.T) {
	t.Parallel()
	disk, value := memfs.New(), bytes.Repeat([]byte("x"), 5000)
	db := testkit.OpenOn(t, disk, nil)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range 300 {
			if err := tx.Set(testkit.Key(i), value); err != nil {
				return err
			}
		}
		return nil
	}))
	testkit.Must(t, db.Close())
	damaged := 0
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".values") {
			f, err := disk.OpenReadWrite(disk.Join(testkit.Dir, name), vfs.CatNone)
			testkit.Must(t, err)
			size, err := f.Size()
			testkit.Must(t, err)
			var b [1]byte
			_, err = f.ReadAt(b[:], size/2)
			testkit.Must(t, err)
			_, err = f.WriteAt([]byte{b[0] ^ 1}, size/2)
			testkit.Must(t, errors.Join(err, f.Close()))
			damaged++
		}
	}
	if damaged == 0 {
		t.Fatal("no values are kept apart")
	}
	db = testkit.OpenOn(t, disk, nil)
	err = db.View(func(tx stoat.Txn) error {
		for key, got := range tx.All() {
			if !bytes.Equal(got, value) {
				t.Errorf("%q is shown with %d bytes", key, len(got))
			}
		}
		return tx.Err()
	})
	testkit.WantError(t, "the loop", err, stoat.ErrCorrupt)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for range tx.Range(testkit.Key(0), testkit.Key(2)) {
			for range tx.All() {
			}
		}
		testkit.WantError(t, "a loop in one that ended well", tx.Err(), stoat.ErrCorrupt)
		for range tx.Range(testkit.Key(0), testkit.Key(2)) {
		}
		testkit.WantError(t, "a loop after them", tx.Err(), nil)
		return nil
	}))
	testkit.Must(t, db.Close())
}

// A read-only transaction may be used by many at once, and so may its loops. The
// race detector looks on.
func TestIterator_LoopsOfOneTransactionMayRunAtOnce(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte("v")) }))
	tx := testkit.Begin(t, db, stoat.ReadOnly)
	defer tx.Discard()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				for range tx.All() {
				}
			}
		})
	}
	all.Wait()
	testkit.Must(t, tx.Err())
}
