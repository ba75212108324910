package behaviour

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

func TestRangeDeletion_ConflictsWithReadsOfTheRange(t *testing.T) {
	t.Parallel()
	read := func(key string) func(stoat.Txn) {
		return func(tx stoat.Txn) { _, _ = tx.Get([]byte(key)) } // there or not
	}
	scan := func(lo, hi string) func(stoat.Txn) {
		return func(tx stoat.Txn) {
			for range tx.Range([]byte(lo), []byte(hi)) {
			}
		}
	}
	for _, c := range []struct {
		name string
		read func(stoat.Txn)
		want error
	}{
		{"a key in it", read("c"), stoat.ErrConflict},
		{"its first key", read("b"), stoat.ErrConflict},
		{"an absent key in it", read("bb"), stoat.ErrConflict},
		{"its end", read("d"), nil},
		{"a key before it", read("a"), nil},
		{"a range over it", scan("a", "z"), stoat.ErrConflict},
		{"an empty range in it", scan("b1", "b2"), stoat.ErrConflict},
		{"a range up to it", scan("a", "b"), nil},
		{"a range from its end", scan("d", "e"), nil},
		{"nothing", func(stoat.Txn) {}, nil},
		{"a key in an own deletion", func(tx stoat.Txn) {
			_ = tx.DeleteRange([]byte("c"), []byte("cc"))
			read("c")(tx)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			afterSomeMoves(t, "a b c d e", func(t *testing.T, db *stoat.DB, move func()) {
				tx := testkit.Begin(t, db, stoat.ReadWrite)
				c.read(tx)
				testkit.Must(t, tx.Set([]byte("x"), nil))
				deleteRange(t, db, "b", "d")
				move()
				if err := tx.Commit(); !errors.Is(err, c.want) {
					t.Errorf("commit: %v, want %v", err, c.want)
				}
			})
		})
	}
}

func TestRangeDeletion_WithoutAnEndConflictsUpToTheLastKey(t *testing.T) {
	t.Parallel()
	afterSomeMoves(t, "a b c", func(t *testing.T, db *stoat.DB, move func()) {
		var readers []stoat.Txn
		for _, read := range []func(stoat.Txn){
			func(tx stoat.Txn) { _, _ = tx.Get(lastKey) }, // which is not there
			func(tx stoat.Txn) { tx.Iterator(stoat.IterOptions{Lower: lastKey}).Next() },
			func(tx stoat.Txn) { _, _ = tx.Get([]byte("a")) },
		} {
			tx := testkit.Begin(t, db, stoat.ReadWrite)
			read(tx)
			testkit.Must(t, tx.Set([]byte("x"), nil))
			readers = append(readers, tx)
		}
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange([]byte("b"), nil) }))
		move()
		testkit.WantError(t, "the reader of the last key", readers[0].Commit(), stoat.ErrConflict)
		testkit.WantError(t, "the reader from the last key on", readers[1].Commit(), stoat.ErrConflict)
		testkit.Must(t, readers[2].Commit())
	})
}

func TestRangeDeletion_ReadsNothing(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	setKeys(t, db, "a b c")
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	testkit.Must(t, tx.DeleteRange(nil, nil))
	setKeys(t, db, "b d")
	testkit.Must(t, tx.Commit())
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		wantKeys(t, "whoever commits later", tx, "")
		return nil
	}))
	testkit.Must(t, db.Close())
}
