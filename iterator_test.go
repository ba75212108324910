package stoat_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestIteratorsOfOneTransactionDoNotShareAnything(t *testing.T) {
	t.Parallel()
	db, err := stoat.Open(dbDir, &stoat.Options{FS: memfs.New(), Durability: stoat.Buffered})
	must(t, err)
	for i := range 10 {
		must(t, db.Update(func(tx *stoat.Txn) error { return tx.Set(treeKey(i), nil) }))
	}
	must(t, db.View(func(tx *stoat.Txn) error {
		first, second := tx.Iterator(stoat.IterOptions{}), tx.Iterator(stoat.IterOptions{})
		first.Seek(treeKey(1))
		second.Seek(treeKey(2))
		first.Close()
		third := tx.Iterator(stoat.IterOptions{})
		third.Seek(treeKey(3))
		if first.Valid() || first.Next() {
			t.Error("a closed iterator moves")
		}
		for i, it := range []*stoat.Iterator{second, third} {
			if !it.Valid() || string(it.Key()) != string(treeKey(2+i)) {
				t.Errorf("iterator %d is at %q", 1+i, it.Key())
			}
			it.Close()
		}
		return nil
	}))
	must(t, db.Close())
}

// The iterator lends its key from memory that a search writes to.
func TestSeekToTheKeyThatAnIteratorIsAtReadsFromThere(t *testing.T) {
	t.Parallel()
	for at := range 8 {
		db := openOn(t, memfs.New(), nil)
		setAll(t, db, 0, 20, 10, 1)
		must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		tx := begin(t, db, stoat.ReadWrite)
		it := tx.Iterator(stoat.IterOptions{})
		for range at + 1 {
			it.Next()
		}
		if !it.Seek(it.Key()) || !it.Next() || !bytes.Equal(it.Key(), treeKey(at+1)) {
			t.Fatalf("after seeking to key %d and one step the iterator is at %q", at, it.Key())
		}
		must(t, tx.Set([]byte("other"), nil))
		setAll(t, db, at+1, at+2, 10, 2)
		if err := tx.Commit(); !errors.Is(err, stoat.ErrConflict) {
			t.Errorf("what was read at key %d has changed, and Commit returned %v", at+1, err)
		}
		must(t, db.Close())
	}
}

func TestAnEmptyUpperBoundLeavesNothing(t *testing.T) {
	t.Parallel()
	db := openOn(t, memfs.New(), nil)
	setAll(t, db, 0, 3, 10, 1)
	must(t, db.View(func(tx *stoat.Txn) error {
		if it := tx.Iterator(stoat.IterOptions{Upper: []byte{}}); it.Next() {
			t.Errorf("%q is less than the empty key", it.Key())
		}
		return nil
	}))
	must(t, db.Close())
}

// What a loop shows has been read: an error ends it before.
func TestALoopDoesNotShowAValueThatCouldNotBeRead(t *testing.T) {
	t.Parallel()
	disk, value := memfs.New(), bytes.Repeat([]byte("x"), 5000)
	db := openOn(t, disk, nil)
	must(t, db.Update(func(tx *stoat.Txn) error {
		for i := range 300 {
			if err := tx.Set(treeKey(i), value); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, db.Close())
	damaged := 0
	names, err := disk.List(dbDir)
	must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".values") {
			f, err := disk.OpenReadWrite(disk.Join(dbDir, name), vfs.CatNone)
			must(t, err)
			size, err := f.Size()
			must(t, err)
			var b [1]byte
			_, err = f.ReadAt(b[:], size/2)
			must(t, err)
			_, err = f.WriteAt([]byte{b[0] ^ 1}, size/2)
			must(t, errors.Join(err, f.Close()))
			damaged++
		}
	}
	if damaged == 0 {
		t.Fatal("no values are kept apart")
	}
	db = openOn(t, disk, nil)
	err = db.View(func(tx *stoat.Txn) error {
		for key, got := range tx.All() {
			if !bytes.Equal(got, value) {
				t.Errorf("%q is shown with %d bytes", key, len(got))
			}
		}
		return tx.Err()
	})
	wantError(t, "the loop", err, stoat.ErrCorrupt)
	must(t, db.View(func(tx *stoat.Txn) error {
		for range tx.Range(treeKey(0), treeKey(2)) {
			for range tx.All() {
			}
		}
		wantError(t, "a loop in one that ended well", tx.Err(), stoat.ErrCorrupt)
		for range tx.Range(treeKey(0), treeKey(2)) {
		}
		wantError(t, "a loop after them", tx.Err(), nil)
		return nil
	}))
	must(t, db.Close())
}

// A read-only transaction may be used by many at once, and so may its loops. The
// race detector looks on.
func TestLoopsOfOneTransactionMayRunAtOnce(t *testing.T) {
	t.Parallel()
	db := openMem(t)
	must(t, db.Update(func(tx *stoat.Txn) error { return tx.Set([]byte("k"), []byte("v")) }))
	tx := begin(t, db, stoat.ReadOnly)
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
	must(t, tx.Err())
}
