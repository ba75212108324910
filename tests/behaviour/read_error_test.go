package behaviour

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A caller that does not look at Err must not commit what it concluded from half a
// range.
func TestReadError_EndsTheTransactionThatMetIt(t *testing.T) {
	t.Parallel()
	const keys = 2000
	read := map[string]func(tx stoat.Txn) (seen int){
		"All": func(tx stoat.Txn) (seen int) {
			for range tx.All() {
				seen++
			}
			return seen
		},
		"Prefix": func(tx stoat.Txn) (seen int) {
			for range tx.Prefix(testkit.Key(0)[:1]) {
				seen++
			}
			return seen
		},
		"Range": func(tx stoat.Txn) (seen int) {
			for range tx.Range(testkit.Key(0), nil) {
				seen++
			}
			return seen
		},
		"an open iterator": func(tx stoat.Txn) (seen int) {
			for it := tx.Iterator(stoat.IterOptions{}); it.Next(); {
				seen++
			}
			return seen
		},
		"a closed iterator": func(tx stoat.Txn) (seen int) {
			it := tx.Iterator(stoat.IterOptions{Reverse: true})
			for it.Next() {
				seen++
			}
			_ = it.Close()
			return seen
		},
		"Get": func(tx stoat.Txn) (seen int) {
			for i := range keys {
				if _, err := tx.Get(testkit.Key(i)); err == nil {
					seen++
				}
			}
			return seen
		},
	}
	for name, read := range read {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := memfs.New()
			db := testkit.OpenOn(t, disk, nil)
			testkit.SetKeys(t, db, 0, keys, 100, 1)
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			testkit.Must(t, db.Close())
			spoilTableWith(t, disk, "")
			db = testkit.OpenOn(t, disk, nil)
			defer func() { _ = db.Close() }()
			marker := []byte("\x00marker")
			err := db.Update(func(tx stoat.Txn) error {
				if seen := read(tx); seen == keys {
					t.Fatal("no read failed")
				}
				return tx.Set(marker, nil)
			})
			if !errors.Is(err, stoat.ErrCorrupt) {
				t.Errorf("Update returned %v", err)
			}
			done := make(chan error, 1)
			tx := testkit.Begin(t, db, stoat.ReadWrite)
			read(tx)
			testkit.Must(t, tx.Set(marker, nil))
			tx.CommitAsync(func(_ uint64, err error) { done <- err })
			if err := <-done; !errors.Is(err, stoat.ErrCorrupt) {
				t.Errorf("CommitAsync called back with %v", err)
			}
			testkit.Must(t, db.View(func(tx stoat.Txn) error {
				if has, err := tx.Has(marker); has || err != nil && !errors.Is(err, stoat.ErrCorrupt) {
					t.Errorf("the write is there: %v, %v", has, err)
				}
				return nil
			}))
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(marker, nil) }))
		})
	}
}
