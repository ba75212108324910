package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// A kept is what a caller has kept beyond the end of its View: handles of a value
// in the memtable, of one in a table, and of one in a value file.
type kept struct {
	tx      stoat.Txn
	version uint64
	open    stoat.Iterator // left open, at an entry
	closed  stoat.Iterator
	items   []stoat.Item
	readers []io.ReadSeeker
	loop    func(yield func(k, v []byte) bool)
}

var staleKeys = []string{"apart", "memtable", "table"}

// openStale opens a database that has staleKeys.
func openStale(t *testing.T) *stoat.DB {
	t.Helper()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return errors.Join(tx.Set([]byte("table"), []byte("value")), tx.Set([]byte("apart"), make([]byte, 100_000)))
	}))
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("memtable"), []byte("value")) }))
	return db
}

// keep runs a View, and returns what is left of it.
func keep(t *testing.T, db *stoat.DB) kept {
	t.Helper()
	var k kept
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		k = kept{tx: tx, version: tx.ReadVersion(), loop: tx.All()}
		k.open, k.closed = tx.Iterator(stoat.IterOptions{}), tx.Iterator(stoat.IterOptions{})
		for k.closed.Next() {
			k.items = append(k.items, k.closed.Item())
		}
		k.closed.Close()
		for _, key := range staleKeys {
			i, err := tx.GetItem([]byte(key))
			testkit.Must(t, err)
			r, err := i.Reader()
			testkit.Must(t, err)
			k.items, k.readers = append(k.items, i), append(k.readers, r)
		}
		if len(k.items) < 2*len(staleKeys) || !k.open.First() {
			t.Errorf("%d items, and the iterator is at an entry: %t", len(k.items), k.open.Valid())
		}
		return nil
	}))
	return k
}

// refused uses all of k, and demands ErrTxnDone.
func (k *kept) refused(t *testing.T) {
	t.Helper()
	tx, key, done := k.tx, []byte("table"), stoat.ErrTxnDone
	_, err := tx.Get(key)
	testkit.WantError(t, "Get", err, done)
	_, err = tx.GetCopy(key, nil)
	testkit.WantError(t, "GetCopy", err, done)
	_, err = tx.GetItem(key)
	testkit.WantError(t, "GetItem", err, done)
	_, err = tx.Has(key)
	testkit.WantError(t, "Has", err, done)
	testkit.WantError(t, "Set", tx.Set(key, key), done)
	testkit.WantError(t, "Set with TTL", tx.Set(key, key, stoat.TTL(1)), done)
	testkit.WantError(t, "SetReader", tx.SetReader(key, bytes.NewReader(key)), done)
	testkit.WantError(t, "Delete", tx.Delete(key), done)
	testkit.WantError(t, "DeleteRange", tx.DeleteRange(nil, nil), done)
	testkit.WantError(t, "Err", tx.Err(), done)
	for range k.loop {
		t.Error("a loop of before shows something")
	}
	for range tx.Prefix(key) {
		t.Error("a loop shows something")
	}
	testkit.WantError(t, "Err after loops", tx.Err(), done)
	if v := tx.ReadVersion(); v != 0 || k.version == 0 {
		t.Errorf("ReadVersion is %d, was %d", v, k.version)
	}
	if v := tx.CommitVersion(); v != 0 {
		t.Errorf("CommitVersion is %d", v)
	}
	testkit.WantError(t, "Commit", tx.Commit(), done)
	committed := make(chan error, 1)
	tx.CommitAsync(func(_ uint64, err error) { committed <- err })
	testkit.WantError(t, "CommitAsync", <-committed, done)
	tx.Discard()

	testkit.WantError(t, "Err of an iterator left open", k.open.Err(), done)
	for _, it := range []stoat.Iterator{k.open, k.closed, tx.Iterator(stoat.IterOptions{})} {
		if it.Valid() || it.Key() != nil || it.Value() != nil {
			t.Errorf("an iterator is at %q", it.Key())
		}
		if i := it.Item(); i.Key() != nil {
			t.Errorf("an iterator shows the item %q", i.Key())
		}
		if it.First() || it.Next() || it.Seek(key) {
			t.Error("an iterator moves")
		}
		testkit.WantError(t, "Err of an iterator", it.Err(), done)
		testkit.WantError(t, "Close", it.Close(), done)
		testkit.WantError(t, "Err of a closed iterator", it.Err(), done)
	}
	for _, i := range k.items {
		_, err := i.Value()
		testkit.WantError(t, "Item.Value", err, done)
		_, err = i.ValueCopy(nil)
		testkit.WantError(t, "Item.ValueCopy", err, done)
		_, err = i.Reader()
		testkit.WantError(t, "Item.Reader", err, done)
		if n := i.ValueSize(); n != 0 {
			t.Errorf("Item.ValueSize is %d", n)
		}
		if k := i.KeyCopy(nil); i.Key() != nil || k != nil {
			t.Errorf("Item.Key is %q", k)
		}
	}
	for _, r := range k.readers {
		_, err := r.Read(make([]byte, 1))
		testkit.WantError(t, "Read", err, done)
		_, err = r.Seek(0, io.SeekStart)
		testkit.WantError(t, "Seek", err, done)
	}
}

// viewAll is a View that must not notice what stale handles are asked meanwhile.
func viewAll(db *stoat.DB, meanwhile func()) error {
	return db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{})
		if !it.First() {
			return fmt.Errorf("the iterator shows nothing: %w", it.Err())
		}
		item, err := tx.GetItem([]byte("apart"))
		if err != nil {
			return err
		}
		looped := 0
		for range tx.All() {
			if looped++; looped == 1 {
				meanwhile()
			}
		}
		if err := tx.Err(); err != nil || looped < len(staleKeys) {
			return fmt.Errorf("%d turns of a loop: %w", looped, err)
		}
		n := 1
		for it.Next() {
			n++
		}
		if err := it.Err(); err != nil || n < len(staleKeys) {
			return fmt.Errorf("an iterator has shown %d keys: %w", n, err)
		}
		if v, err := item.Value(); err != nil || len(v) != 100_000 {
			return fmt.Errorf("an item has %d bytes: %w", len(v), err)
		}
		for _, key := range staleKeys {
			if _, err := tx.Get([]byte(key)); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestStaleHandles_AfterTheViewAllAnswerErrTxnDone(t *testing.T) {
	t.Parallel()
	db := openStale(t)
	k := keep(t, db)
	k.refused(t)
}

// Views of one goroutine mostly have the same slot, and so the same state.
func TestStaleHandles_NeverActForALaterView(t *testing.T) {
	t.Parallel()
	db := openStale(t)
	k := keep(t, db)
	for n := range 300 {
		fresh := keep(t, db)
		testkit.Must(t, viewAll(db, func() { k.refused(t); fresh.refused(t) }))
		if t.Failed() {
			t.Fatalf("in View %d after the one that they are of", n)
		}
	}
}

// The handles are used on goroutines of their own, while others run Views and
// commits. The race detector sees whether they touch what these have.
func TestStaleHandles_AreRefusedBesideManyViews(t *testing.T) {
	t.Parallel()
	db := openStale(t)
	var users, views sync.WaitGroup
	end := make(chan struct{})
	for w := range 4 {
		views.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				default:
				}
				if err := viewAll(db, func() {}); err != nil {
					t.Error(err)
				}
				if n%16 == 0 {
					key := fmt.Appendf(nil, "other %d", w)
					if err := db.Update(func(tx stoat.Txn) error { return tx.Set(key, key) }); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 50 {
		k := keep(t, db)
		users.Go(func() {
			for range 5 {
				k.refused(t)
			}
		})
	}
	users.Wait()
	close(end)
	views.Wait()
}

// A goroutine goes on to use the transaction while its View ends, which the caller
// must not let happen. Later Views do not notice.
func TestStaleHandles_AViewThatIsEndedTwiceLeavesLaterViewsAlone(t *testing.T) {
	t.Parallel()
	db := openStale(t)
	for range 300 {
		var k kept
		var group sync.WaitGroup
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			k.tx = tx
			tx.Iterator(stoat.IterOptions{})
			for range 2 {
				group.Go(tx.Discard)
			}
			return nil
		}))
		for range 3 {
			testkit.Must(t, viewAll(db, func() { testkit.WantError(t, "Err", k.tx.Err(), stoat.ErrTxnDone) }))
		}
		group.Wait()
	}
}

// What a transaction of Begin leaves is refused alike, as is what Update leaves.
func TestStaleHandles_OfBeginAndUpdate(t *testing.T) {
	t.Parallel()
	db := openStale(t)
	tx := testkit.Begin(t, db, stoat.ReadOnly)
	it := tx.Iterator(stoat.IterOptions{})
	tx.Discard()
	var updated stoat.Txn
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { updated = tx; return nil }))
	testkit.Must(t, viewAll(db, func() {
		useAll(t, "Begin", tx, stoat.ErrTxnDone)
		useAll(t, "Update", updated, stoat.ErrTxnDone)
		testkit.WantError(t, "Iterator", it.Err(), stoat.ErrTxnDone)
	}))
}
