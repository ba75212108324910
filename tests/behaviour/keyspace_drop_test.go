package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestDropKeyspace_HidesEverythingFromLaterTransactionsOnly(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	one, two := keyspace(t, db, "one"), keyspace(t, db, "two")
	fill(t, db, one, two)
	before := testkit.Begin(t, db, stoat.ReadOnly)
	defer before.Discard()
	testkit.Must(t, db.DropKeyspace("one"))
	if got := names(t, db); !slices.Equal(got, []string{"two"}) {
		t.Errorf("after the drop there are %q", got)
	}
	testkit.WantError(t, "dropping twice", db.DropKeyspace("one"), stoat.ErrNoKeyspace)
	mustHoldAwkward(t, before, one)
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	defer tx.Discard()
	mustHoldAwkward(t, tx, nil)
	mustHoldAwkward(t, tx, two)
	tx = tx.In(one)
	_, err := tx.Get([]byte("a"))
	testkit.WantError(t, "Get", err, stoat.ErrNoKeyspace)
	_, err = tx.Has([]byte("a"))
	testkit.WantError(t, "Has", err, stoat.ErrNoKeyspace)
	testkit.WantError(t, "Iterator", tx.Iterator(stoat.IterOptions{}).Close(), stoat.ErrNoKeyspace)
	testkit.WantError(t, "Set", tx.Set([]byte("a"), nil), stoat.ErrNoKeyspace)
	testkit.WantError(t, "SetReader", tx.SetReader([]byte("a"), bytes.NewReader(nil)), stoat.ErrNoKeyspace)
	testkit.WantError(t, "Delete", tx.Delete([]byte("a")), stoat.ErrNoKeyspace)
	testkit.WantError(t, "DeleteRange", tx.DeleteRange(nil, nil), stoat.ErrNoKeyspace)
	testkit.WantError(t, "DropAll", one.DropAll(t.Context()), stoat.ErrNoKeyspace)
	testkit.WantError(t, "Compact", db.Compact(t.Context(), stoat.CompactOptions{Keyspace: one}), stoat.ErrNoKeyspace)
}

func TestDropKeyspace_TheNameBeginsAnew(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	old, err := db.Keyspace("one", &stoat.KeyspaceOptions{NumVersions: 9})
	testkit.Must(t, err)
	fill(t, db, old)
	testkit.Must(t, db.DropKeyspace("one"))
	anew := keyspace(t, db, "one")
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		if keys := shown(t, tx.In(anew), stoat.IterOptions{AllVersions: true}); len(keys) > 0 {
			t.Errorf("the new keyspace has %q", keys)
		}
		return nil
	}))
	fill(t, db, anew)
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, fs, nil)
	anew = keyspace(t, db, "one")
	testkit.Must(t, db.View(func(tx stoat.Txn) error { mustHoldAwkward(t, tx, anew); return nil }))
	all, err := db.Keyspaces()
	testkit.Must(t, err)
	if len(all) != 2 || all[1].Settings.NumVersions != 1 {
		t.Errorf("the keyspaces are %+v", all)
	}
	testkit.Must(t, db.Close())
}

func TestDropKeyspace_CommitsIntoItFailAsAWhole(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	one, two := keyspace(t, db, "one"), keyspace(t, db, "two")
	begin := func() stoat.Txn {
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		testkit.Must(t, tx.In(two).Set([]byte("k"), []byte("v")))
		testkit.Must(t, tx.In(one).Set([]byte("k"), []byte("v")))
		return tx
	}
	tx, async := begin(), begin()
	testkit.Must(t, db.DropKeyspace("one"))
	testkit.WantError(t, "Commit", tx.Commit(), stoat.ErrNoKeyspace)
	done := make(chan error)
	async.CommitAsync(func(_ uint64, err error) { done <- err })
	testkit.WantError(t, "CommitAsync", <-done, stoat.ErrNoKeyspace)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		if ok, err := tx.In(two).Has([]byte("k")); ok || err != nil {
			t.Errorf("the failed commit left a key: %t, %v", ok, err)
		}
		return nil
	}))
}

// A transaction that read the keyspace and decides by it conflicts with the drop.
func TestDropKeyspace_ConflictsWithReadsOfTheKeyspace(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	one := keyspace(t, db, "one")
	fill(t, db, one)
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	_, err := tx.In(one).Get([]byte("a"))
	testkit.Must(t, err)
	testkit.Must(t, tx.Set([]byte("copy"), nil))
	testkit.Must(t, db.DropKeyspace("one"))
	testkit.WantError(t, "commit", tx.Commit(), stoat.ErrConflict)
}

// writeMuch writes about 4 MB to a keyspace.
func writeMuch(t *testing.T, db *stoat.DB, ks *stoat.Keyspace) {
	t.Helper()
	value := bytes.Repeat([]byte("v"), 1000)
	for from := 0; from < 4000; from += 400 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := from; i < from+400; i++ {
				if err := errors.Join(tx.In(ks).Set(testkit.Key(i), value), tx.In(ks).Set(testkit.Key(i+5000), value[:100])); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// stored returns the bytes of all tables and value files.
func stored(db *stoat.DB) int64 {
	s := db.Stats()
	return s.TableBytes + s.ValueBytes
}

func TestDropKeyspace_FreesTheSpaceWithoutACall(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	one, two := keyspace(t, db, "one"), keyspace(t, db, "two")
	fill(t, db, two)
	writeMuch(t, db, one)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	full := stored(db)
	reader := testkit.Begin(t, db, stoat.ReadOnly)
	testkit.Must(t, db.DropKeyspace("one"))
	if n := len(shown(t, reader.In(one), stoat.IterOptions{})); n != 8000 {
		t.Errorf("an older transaction sees %d keys, want 8000", n)
	}
	if stored(db) < full {
		t.Errorf("tables and value files shrank from %d bytes to %d under a reader", full, stored(db))
	}
	reader.Discard()
	testkit.Eventually(t, "the space of a dropped keyspace is free", func() bool { return stored(db) < 64<<10 })
	testkit.Must(t, db.View(func(tx stoat.Txn) error { mustHoldAwkward(t, tx, two); return nil }))
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}

func TestDropKeyspace_GoesOnAfterAReopening(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	writeMuch(t, db, keyspace(t, db, "one"))
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	reader := testkit.Begin(t, db, stoat.ReadOnly)
	testkit.Must(t, db.DropKeyspace("one"))
	testkit.Must(t, db.Close())
	reader.Discard()
	db = testkit.OpenOn(t, fs, nil)
	testkit.Eventually(t, "the space of a dropped keyspace is free", func() bool { return stored(db) < 64<<10 })
	if got := names(t, db); len(got) > 0 {
		t.Errorf("after the drop there are %q", got)
	}
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}

func TestDropKeyspace_AReopeningCommitsNoSecondDeletion(t *testing.T) {
	t.Parallel()
	for name, furnish := range map[string]func(db *stoat.DB, one *stoat.Keyspace){
		"keys": func(*stoat.DB, *stoat.Keyspace) {},
		"keys and deleted ranges": func(db *stoat.DB, one *stoat.Keyspace) {
			lo, hi := testkit.Key(100), testkit.Key(4000)
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(one).DeleteRange(lo, hi) }))
			testkit.Must(t, testkit.WaitForFlushes(db))
			writeMuch(t, db, one)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := memfs.New()
			db := testkit.OpenOn(t, fs, nil)
			one := keyspace(t, db, "one")
			writeMuch(t, db, one)
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			furnish(db, one)
			reader := testkit.Begin(t, db, stoat.ReadOnly) // the dropper waits for it
			testkit.Must(t, db.DropKeyspace("one"))
			before := newest(t, db)
			testkit.Must(t, db.Close())
			reader.Discard()
			db = testkit.OpenOn(t, fs, nil)
			testkit.Eventually(t, "the dropped keyspace takes no space", func() bool { return stored(db) == 0 })
			if after := newest(t, db); after != before {
				t.Errorf("the newest commit is %d, want %d, that of the drop", after, before)
			}
			testkit.Must(t, db.Close())
		})
	}
}

func TestDropKeyspace_ManyAreForgotten(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	for round := range 3 {
		for i := range 20 {
			ks := keyspace(t, db, fmt.Sprint(i))
			fillOne(t, db, ks, fmt.Sprint(round))
			testkit.Must(t, db.DropKeyspace(fmt.Sprint(i)))
		}
	}
	testkit.Eventually(t, "all is free", func() bool { return stored(db) == 0 })
	testkit.Must(t, db.Close())
}
