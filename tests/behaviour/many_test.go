package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// sameAsGet compares GetMany with Get for each key.
func sameAsGet(tx stoat.Txn, keys [][]byte) error {
	values, err := tx.GetMany(keys, nil)
	if err != nil || len(values) != len(keys) {
		return fmt.Errorf("%d values of %d keys: %w", len(values), len(keys), err)
	}
	for i, key := range keys {
		want, err := tx.Get(key)
		if err != nil && !errors.Is(err, stoat.ErrNotFound) {
			return err
		}
		if found := err == nil; found != (values[i] != nil) || !bytes.Equal(values[i], want) {
			return fmt.Errorf("key %d, %q: GetMany returns %.40q, Get %.40q, %w", i, key, values[i], want, err)
		}
	}
	return nil
}

func TestGetMany_FindsWhatGetFinds(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{false, true} {
		fs := memfs.New()
		open := func() *stoat.DB {
			return testkit.OpenOn(t, fs, func(o *stoat.Options) {
				o.MemtableSize, o.Keys = 64<<10, testkit.KeysIf(encrypted)
				o.MergeFunction, o.MergeFunctions = merge.Append.Name(), []stoat.MergeFunction{merge.Append}
			})
		}
		db := open()
		ks, err := db.Keyspace("other", &stoat.KeyspaceOptions{MergeFunction: merge.Append.Name()})
		testkit.Must(t, err)
		fillTurns(t, db, []*stoat.Keyspace{nil, ks})
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			return errors.Join(tx.Set([]byte("long"), bytes.Repeat([]byte("long"), 5000)), tx.Set([]byte("empty"), nil))
		}))
		testkit.Must(t, db.Close())
		db = open() // what is read now has not been read before
		ks, err = db.Keyspace("other", nil)
		testkit.Must(t, err)
		spaces := []*stoat.Keyspace{nil, ks}
		rng := rand.New(rand.NewPCG(5, 6))
		for i := range testkit.Raced(60, 9) {
			tx := testkit.Begin(t, db, stoat.ReadWrite)
			if i%3 == 0 {
				testkit.Must(t, writeTurns(tx, spaces, rng))
				testkit.Must(t, tx.SetReader([]byte("streamed"), testkit.Patterned(3<<20)))
			}
			keys := [][]byte{[]byte("streamed"), []byte("long"), []byte("empty"), []byte("absent")}
			for range rng.IntN(300) {
				keys = append(keys, turnKey(rng.IntN(200)))
			}
			testkit.Must(t, sameAsGet(tx.In(spaces[i%2]), keys))
			tx.Discard()
		}
		testkit.Must(t, db.Close())
	}
}

func TestGetMany_TellsAnEmptyValueFromNone(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("empty"), nil) }))
	for range 2 {
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			values, err := tx.GetMany([][]byte{[]byte("empty"), []byte("none")}, nil)
			if err == nil && (len(values) != 2 || values[0] == nil || len(values[0]) > 0 || values[1] != nil) {
				t.Errorf("values %#v, want an empty one and nil", values)
			}
			return err
		}))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	}
}

func TestGetMany_ReadsEachKey(t *testing.T) {
	t.Parallel()
	for changed := range 5 {
		db := testkit.OpenMem(t)
		testkit.SetKeys(t, db, 0, 3, 10, 1)
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		_, err := tx.GetMany([][]byte{testkit.Key(2), testkit.Key(0), testkit.Key(3)}, nil)
		testkit.Must(t, errors.Join(err, tx.Set([]byte("other"), nil)))
		testkit.SetKeys(t, db, changed, changed+1, 10, 2)
		err = tx.Commit()
		if want := changed != 1 && changed != 4; errors.Is(err, stoat.ErrConflict) != want || !want && err != nil {
			t.Errorf("key %d changed, Commit returns %v, want a conflict %v", changed, err, want)
		}
		testkit.Must(t, db.Close())
	}
}

func TestGetMany_ErrorsReturnDst(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks, err := db.Keyspace("gone", nil)
	testkit.Must(t, err)
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	ended := testkit.Begin(t, db, stoat.ReadWrite)
	ended.Discard()
	testkit.Must(t, db.DropKeyspace("gone"))
	late := testkit.Begin(t, db, stoat.ReadWrite)
	one := [][]byte{[]byte("k")}
	for _, c := range []struct {
		name string
		tx   stoat.Txn
		keys [][]byte
		want error
	}{
		{"an empty key", tx, [][]byte{[]byte("k"), nil}, stoat.ErrEmptyKey},
		{"a long key", tx, [][]byte{make([]byte, stoat.MaxKeySize+1)}, stoat.ErrKeyTooLarge},
		{"an ended transaction", ended, nil, stoat.ErrTxnDone},
		{"the zero transaction", stoat.Txn{}, one, stoat.ErrTxnDone},
		{"a dropped keyspace", late.In(ks), one, stoat.ErrNoKeyspace},
	} {
		values, err := c.tx.GetMany(c.keys, one)
		if !errors.Is(err, c.want) || len(values) != 1 || &values[0] != &one[0] {
			t.Errorf("%s: %q, %v, want dst and %v", c.name, values, err, c.want)
		}
	}
	tx.Discard()
	late.Discard()
	testkit.Must(t, db.Close())
}

// A damaged value is an error, and no missing key.
func TestGetMany_DamageIsAnError(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{".values", ".table"} {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, nil)
		testkit.SetKeys(t, db, 0, 100, 5000, 1)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		testkit.Must(t, db.Close())
		names, err := disk.List(testkit.Dir)
		testkit.Must(t, err)
		for _, name := range names {
			if !bytes.HasSuffix([]byte(name), []byte(suffix)) {
				continue
			}
			f, err := disk.OpenReadWrite(disk.Join(testkit.Dir, name), vfs.CatNone)
			testkit.Must(t, err)
			_, err = f.WriteAt(bytes.Repeat([]byte{7}, 100), 400)
			testkit.Must(t, errors.Join(err, f.Close()))
		}
		db = testkit.OpenOn(t, disk, nil)
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		keys := make([][]byte, 100)
		for i := range keys {
			keys[i] = testkit.Key(i)
		}
		_, err = tx.GetMany(keys, nil)
		testkit.WantError(t, "GetMany with a damaged "+suffix, err, stoat.ErrCorrupt)
		testkit.WantError(t, "Commit after it", errors.Join(tx.Set([]byte("k"), nil), tx.Commit()), stoat.ErrCorrupt)
		testkit.Must(t, db.Close())
	}
}
