package behaviour

import (
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// fillTree commits keys [from, to) in batches.
func fillTree(t *testing.T, db *stoat.DB, from, to int) {
	t.Helper()
	for from < to {
		err := db.Update(func(tx stoat.Txn) error {
			for end := min(from+100, to); from < end; from++ {
				if err := tx.Set(testkit.Key(from), testkit.LongValue(from)); err != nil {
					return err
				}
			}
			return nil
		}, stoat.WithDurability(stoat.Buffered))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkTree verifies that exactly the keys [from, to) are there.
func checkTree(t *testing.T, db *stoat.DB, from, to int) {
	t.Helper()
	err := db.View(func(tx stoat.Txn) error {
		for i := from; i < to; i++ {
			v, err := tx.Get(testkit.Key(i))
			if err != nil || string(v) != string(testkit.LongValue(i)) {
				t.Fatalf("key %d: %q, %v", i, v, err)
			}
		}
		i := from
		for k, v := range tx.All() {
			if string(k) != string(testkit.Key(i)) || string(v) != string(testkit.LongValue(i)) {
				t.Fatalf("at %d: key %q, value %q", i, k, v)
			}
			i++
		}
		if i != to {
			t.Fatalf("the scan ended at %d, want %d", i, to)
		}
		it := tx.Iterator(stoat.IterOptions{Reverse: true})
		defer it.Close()
		for i--; it.Next(); i-- {
			if string(it.Key()) != string(testkit.Key(i)) || string(it.Value()) != string(testkit.LongValue(i)) {
				t.Fatalf("backwards at %d: key %q, value %q", i, it.Key(), it.Value())
			}
		}
		if i != from-1 {
			t.Fatalf("the reverse scan ended at %d, want %d", i, from-1)
		}
		return tx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTables_DataOfManyMemtablesSurvivesReopening(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	fs := memfs.NewVolatile()
	opts := &stoat.Options{FS: fs, MemtableSize: 256 << 10}
	db, err := stoat.Open(testkit.Dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	fillTree(t, db, 0, keys)
	checkTree(t, db, 0, keys)
	testkit.Eventually(t, "memtables are flushed", func() bool { return db.Stats().Memtables == 1 })
	checkTree(t, db, 0, keys)
	if n := db.Stats().Tables; n == 0 {
		t.Fatal("there are no tables")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, err = stoat.Open(testkit.Dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	checkTree(t, db, 0, keys)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
