//go:build !race && !invariants

package behaviour

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// AllocsPerRun counts the allocations of all goroutines, so this test runs alone. Under the
// race detector pools forget at random, and invariants copy what is lent.
func TestView_AllocatesNothing(t *testing.T) {
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), Durability: stoat.Buffered})
	testkit.Must(t, err)
	for i := range 100 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), testkit.Key(i)) }))
	}
	from, seen := testkit.Key(50), 0
	read := func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{})
		defer it.Close()
		for ok := it.Seek(from); ok; ok = it.Next() {
			seen += len(it.Value())
		}
		return it.Err()
	}
	perView := testing.AllocsPerRun(100, func() { testkit.Must(t, db.View(read)) })
	if perView > 0 || seen == 0 {
		t.Errorf("%v allocations in a View with an iterator, %d bytes seen", perView, seen)
	}
	nothing := func(stoat.Txn) error { return nil }
	if n := testing.AllocsPerRun(100, func() { testkit.Must(t, db.View(nothing)) }); n > 0 {
		t.Errorf("%v allocations in a View that does nothing", n)
	}
	testkit.Must(t, db.Close())
}

// Get builds stored keys on the stack, and Set in memory of the transaction.
func TestKeyspace_ReadsAllocateNothing(t *testing.T) {
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), Durability: stoat.Buffered})
	testkit.Must(t, err)
	var ks *stoat.Keyspace
	for i := range 242 {
		ks, err = db.Keyspace(fmt.Sprint(i), nil)
		testkit.Must(t, err)
	}
	key := []byte("\xffa key of usual length")
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return errors.Join(tx.Set(key, key), tx.In(ks).Set(key, key))
	}))
	read := func(tx stoat.Txn) error {
		for _, in := range []*stoat.Keyspace{nil, ks} {
			if _, err := tx.In(in).Get(key); err != nil {
				return err
			}
			if ok, err := tx.In(in).Has(key); !ok {
				return fmt.Errorf("the key is missing: %w", err)
			}
			it := tx.In(in).Iterator(stoat.IterOptions{})
			if !it.Seek(key) {
				return it.Err()
			}
			it.Close()
		}
		return nil
	}
	if n := testing.AllocsPerRun(100, func() { testkit.Must(t, db.View(read)) }); n > 0 {
		t.Errorf("%v allocations in a View of two keyspaces", n)
	}
	testkit.Must(t, db.Close())
}
