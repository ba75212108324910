package stoat_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
)

// eventually waits until the background work has made cond true.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after 30 s: %s", what)
		}
	}
}

func treeKey(i int) []byte   { return fmt.Appendf(nil, "key-%06d", i) }
func treeValue(i int) []byte { return fmt.Appendf(nil, "value-%06d-%0100d", i, i) }

// fillTree commits keys [from, to) in batches.
func fillTree(t *testing.T, db *stoat.DB, from, to int) {
	t.Helper()
	for from < to {
		err := db.Update(func(tx *stoat.Txn) error {
			for end := min(from+100, to); from < end; from++ {
				if err := tx.Set(treeKey(from), treeValue(from)); err != nil {
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
	err := db.View(func(tx *stoat.Txn) error {
		for i := from; i < to; i++ {
			v, err := tx.Get(treeKey(i))
			if err != nil || string(v) != string(treeValue(i)) {
				t.Fatalf("key %d: %q, %v", i, v, err)
			}
		}
		i := from
		for k, v := range tx.All() {
			if string(k) != string(treeKey(i)) || string(v) != string(treeValue(i)) {
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
			if string(it.Key()) != string(treeKey(i)) || string(it.Value()) != string(treeValue(i)) {
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

func TestDataOfManyMemtablesIsReadFromTablesAndSurvivesReopening(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	fs := stoat.NewMemFS()
	opts := &stoat.Options{FS: fs, MemtableSize: 256 << 10}
	db, err := stoat.Open(dbDir, opts)
	if err != nil {
		t.Fatal(err)
	}
	fillTree(t, db, 0, keys)
	checkTree(t, db, 0, keys)
	eventually(t, "memtables are flushed", func() bool { return db.Stats().Memtables == 1 })
	checkTree(t, db, 0, keys)
	if n := db.Stats().Tables; n == 0 {
		t.Fatal("there are no tables")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, err = stoat.Open(dbDir, opts)
	if err != nil {
		t.Fatal(err)
	}
	checkTree(t, db, 0, keys)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
