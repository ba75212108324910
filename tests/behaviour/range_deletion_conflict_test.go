package behaviour

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestRangeDeletion_ConflictsWithReadsOfTheRange(t *testing.T) {
	t.Parallel()
	read := func(key string) func(*stoat.Txn) {
		return func(tx *stoat.Txn) { _, _ = tx.Get([]byte(key)) } // there or not
	}
	scan := func(lo, hi string) func(*stoat.Txn) {
		return func(tx *stoat.Txn) {
			for range tx.Range([]byte(lo), []byte(hi)) {
			}
		}
	}
	for _, c := range []struct {
		name string
		read func(*stoat.Txn)
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
		{"nothing", func(*stoat.Txn) {}, nil},
		{"a key in an own deletion", func(tx *stoat.Txn) {
			_ = tx.DeleteRange([]byte("c"), []byte("cc"))
			read("c")(tx)
		}, nil},
	} {
		for _, m := range []int{0, 3, 4} {
			t.Run(c.name+"/"+moves[m].name, func(t *testing.T) {
				t.Parallel()
				disk := memfs.New()
				db := testkit.OpenOn(t, disk, nil)
				setKeys(t, db, "a b c d e")
				tx := testkit.Begin(t, db, stoat.ReadWrite)
				c.read(tx)
				testkit.Must(t, tx.Set([]byte("x"), nil))
				deleteRange(t, db, "b", "d")
				moves[m].move(t, disk, db)
				if err := tx.Commit(); !errors.Is(err, c.want) {
					t.Errorf("commit: %v, want %v", err, c.want)
				}
				testkit.Must(t, db.Close())
			})
		}
	}
}

func TestRangeDeletion_WithoutAnEndConflictsUpToTheLastKey(t *testing.T) {
	t.Parallel()
	for _, m := range []int{0, 3, 4} {
		t.Run(moves[m].name, func(t *testing.T) {
			t.Parallel()
			disk := memfs.New()
			db := testkit.OpenOn(t, disk, nil)
			setKeys(t, db, "a b c")
			var readers []*stoat.Txn
			for _, read := range []func(*stoat.Txn){
				func(tx *stoat.Txn) { _, _ = tx.Get(lastKey) }, // which is not there
				func(tx *stoat.Txn) { tx.Iterator(stoat.IterOptions{Lower: lastKey}).Next() },
				func(tx *stoat.Txn) { _, _ = tx.Get([]byte("a")) },
			} {
				tx := testkit.Begin(t, db, stoat.ReadWrite)
				read(tx)
				testkit.Must(t, tx.Set([]byte("x"), nil))
				readers = append(readers, tx)
			}
			testkit.Must(t, db.Update(func(tx *stoat.Txn) error { return tx.DeleteRange([]byte("b"), nil) }))
			moves[m].move(t, disk, db)
			testkit.WantError(t, "who looked for the last key", readers[0].Commit(), stoat.ErrConflict)
			testkit.WantError(t, "who looked from the last key on", readers[1].Commit(), stoat.ErrConflict)
			testkit.Must(t, readers[2].Commit())
			testkit.Must(t, db.Close())
		})
	}
}

func TestRangeDeletion_ReadsNothing(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	setKeys(t, db, "a b c")
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	testkit.Must(t, tx.DeleteRange(nil, nil))
	setKeys(t, db, "b d")
	testkit.Must(t, tx.Commit())
	testkit.Must(t, db.View(func(tx *stoat.Txn) error {
		wantKeys(t, "whoever commits later", tx, "")
		return nil
	}))
	testkit.Must(t, db.Close())
}
