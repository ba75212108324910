//go:build !race && !invariants

package stoat_test

import (
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// AllocsPerRun counts the allocations of all goroutines, so this test runs alone. Under the
// race detector pools forget at random, and invariants copy what is lent.
func TestView_AllocatesOnlyHandles(t *testing.T) {
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), Durability: stoat.Buffered})
	testkit.Must(t, err)
	for i := range 100 {
		testkit.Must(t, db.Update(func(tx *stoat.Txn) error { return tx.Set(testkit.Key(i), testkit.Key(i)) }))
	}
	from, seen := testkit.Key(50), 0
	read := func(tx *stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{})
		defer it.Close()
		for ok := it.Seek(from); ok; ok = it.Next() {
			seen += len(it.Value())
		}
		return it.Err()
	}
	perView := testing.AllocsPerRun(100, func() { testkit.Must(t, db.View(read)) })
	if perView > 2 || seen == 0 {
		t.Errorf("%v allocations in a View with an iterator, %d bytes seen", perView, seen)
	}
	nothing := func(*stoat.Txn) error { return nil }
	if n := testing.AllocsPerRun(100, func() { testkit.Must(t, db.View(nothing)) }); n > 1 {
		t.Errorf("%v allocations in a View that does nothing", n)
	}
	testkit.Must(t, db.Close())
}
