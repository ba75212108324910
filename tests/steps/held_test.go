package steps

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// setApart commits ten values, which the commit writes to a value file.
func setApart(t *testing.T, db *inside.DB) {
	t.Helper()
	if err := db.Update(func(tx stoat.Txn) error {
		for i := range 10 {
			if err := tx.Set(fmt.Appendf(nil, "k%d", i), make([]byte, 64<<10)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func openApart(t *testing.T) *inside.DB {
	t.Helper()
	return openStillWith(t, &stoat.Options{FS: memfs.New(), MemtableSize: 1 << 20})
}

// A scan reads the values in that order, whatever the order of the writes.
func TestLargeCommit_WritesItsValuesInTheOrderOfTheirKeys(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openStillWith(t, &stoat.Options{FS: disk, MemtableSize: 1 << 20})
	rng := rand.New(rand.NewPCG(1, 2))
	const keys = 50
	set := func(tx stoat.Txn, i int) error {
		return tx.Set(fmt.Appendf(nil, "k%02d", i), bytes.Repeat([]byte{byte(i)}, 10<<10+i))
	}
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for _, i := range rng.Perm(keys) {
			if err := set(tx, i); err != nil {
				return err
			}
			if err := tx.Set(fmt.Appendf(nil, "small%02d", i), []byte{byte(i)}); err != nil {
				return err
			}
		}
		if err := tx.DeleteRange([]byte("k10"), []byte("k20")); err != nil {
			return err
		}
		for _, i := range []int{30, 15, 3} { // once more
			if err := set(tx, i); err != nil {
				return err
			}
		}
		return nil
	}))
	mustFlush(t, db)
	files := db.Engine.Store.Version().Values
	if len(files) != 1 || files[0].Values != keys-9 {
		t.Fatalf("%d value files, want one of %d values", len(files), keys-9)
	}
	seen := 0
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for i := range keys {
			v, err := tx.Get(fmt.Appendf(nil, "k%02d", i))
			if i >= 10 && i < 20 && i != 15 {
				if !errors.Is(err, stoat.ErrNotFound) {
					t.Errorf("key %d: %v, want none", i, err)
				}
				continue
			}
			if err != nil || len(v) != 10<<10+i || v[0] != byte(i) || v[len(v)-1] != byte(i) {
				t.Errorf("key %d has %d bytes, %v", i, len(v), err)
			}
			seen++
		}
		return nil
	}))
	name := base.ValueName(files[0].File)
	f, err := disk.Open("/db/"+name, vfs.CatValue)
	testkit.Must(t, err)
	d, err := values.OpenDamaged(f, files[0].Size, name, nil)
	testkit.Must(t, err)
	var last []byte
	testkit.Must(t, d.Records(func(r values.RecordInfo) error {
		if r.Err == nil && bytes.Compare(r.Key, last) <= 0 {
			t.Errorf("the value of %q lies behind that of %q", r.Key, last)
		}
		last = bytes.Clone(r.Key)
		return r.Err
	}))
	testkit.Must(t, d.Close())
	if seen != keys-9 {
		t.Errorf("%d values, want %d", seen, keys-9)
	}
}

// DB.Keyspace may change what counts as large while a commit writes its large values.
func TestLargeCommit_SettingsMayChangeMeanwhile(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db := openStillWith(t, &stoat.Options{FS: disk, MemtableSize: 1 << 20})
	ks, err := db.Keyspace("ks", nil)
	testkit.Must(t, err)
	changed := false
	disk.Observe(func(op vfs.Op) {
		if op.Category != vfs.CatValue || op.Kind != vfs.OpWrite || changed {
			return
		}
		changed = true
		if _, err := db.Keyspace("ks", &stoat.KeyspaceOptions{LargeValueThreshold: 15 << 10}); err != nil {
			t.Error(err)
		}
	})
	key := func(i int) []byte { return fmt.Appendf(nil, "k%02d", i) }
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 10<<10*(1+i%2)) }
	const keys = 40
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range keys {
			if err := tx.In(ks).Set(key(i), value(i)); err != nil {
				return err
			}
		}
		return nil
	}))
	disk.Observe(nil)
	if !changed {
		t.Fatal("the commit has written no value file")
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for i := range keys {
			if v, err := tx.In(ks).Get(key(i)); err != nil || !bytes.Equal(v, value(i)) {
				t.Errorf("key %d has %d bytes, %v", i, len(v), err)
			}
		}
		return nil
	}))
}

// The collector chooses files by a state that a flush may have left behind. By the
// state before the flush nothing in the file is live, and the file is held. That
// another job has looked at the state after the flush changes nothing about that.
func TestHeld_AFileStaysHeldInTheStateBeforeTheFlush(t *testing.T) {
	t.Parallel()
	db := openApart(t)
	setApart(t, db)
	before := db.Engine.Store.State()
	mustFlush(t, db)
	after := db.Engine.Store.State()
	if len(before.Version.Values) != 1 {
		t.Fatalf("%d value files", len(before.Version.Values))
	}
	f := before.Version.Values[0]
	for range 2 {
		if db.Engine.Commits.Held.Holds(f.ValueFile, after.FlushedSeq) {
			t.Error("the file is held although tables tell what is live")
		}
		if f.Live == 0 && !db.Engine.Commits.Held.Holds(f.ValueFile, before.FlushedSeq) {
			t.Error("the file would be dropped")
		}
	}
}

func TestHeld_AFileIsForgottenWhenItIsDropped(t *testing.T) {
	t.Parallel()
	db := openApart(t)
	setApart(t, db)
	file := db.Engine.Store.Version().Values[0].ValueFile
	if file.LastSeq != 0 || !db.Engine.Commits.Held.Holds(file, 0) {
		t.Fatalf("file %d, with versions up to %d, is not remembered", file.Num, file.LastSeq)
	}
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(nil, nil) }))
	mustFlush(t, db)
	if err := db.Compact(t.Context(), stoat.CompactOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := db.Stats().Values; n != 0 {
		t.Fatalf("%d value files", n)
	}
	if db.Engine.Commits.Held.Holds(file, 0) {
		t.Errorf("file %d is remembered", file.Num)
	}
}

func TestStats_CountNoGarbageOfWhatOnlyMemtablesReferTo(t *testing.T) {
	t.Parallel()
	db := openApart(t)
	setApart(t, db)
	if s := db.Stats(); s.ValueBytes == 0 || s.ValueGarbage != 0 {
		t.Errorf("of %d bytes that were committed just now %d are garbage", s.ValueBytes, s.ValueGarbage)
	}
	setApart(t, db)
	mustFlush(t, db)
	if s := db.Stats(); s.ValueGarbage < s.ValueBytes/3 {
		t.Errorf("of %d bytes, half of which were overwritten, %d are garbage", s.ValueBytes, s.ValueGarbage)
	}
}

// Nothing refers to the values that a transaction wrote apart before a conflict was
// found. Their space comes back although nothing else happens.
func TestConflict_ValuesWrittenApartAreGivenBackAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db, err := inside.Open("/db", &stoat.Options{FS: disk, MemtableSize: 1 << 20}, work.Executor{})
		testkit.Must(t, err)
		tx, err := db.Begin(stoat.ReadWrite)
		testkit.Must(t, err)
		if _, err := tx.Get([]byte("k")); !errors.Is(err, stoat.ErrNotFound) {
			t.Fatal(err)
		}
		testkit.Must(t, tx.Set([]byte("large"), make([]byte, 1<<20)))
		var once sync.Once
		disk.SetHook(func(op vfs.Op) {
			if op.Kind != vfs.OpCreate || op.Category != vfs.CatValue {
				return
			}
			once.Do(func() { // after its first look for conflicts, before the second
				if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte("v")) }); err != nil {
					t.Error(err)
				}
			})
		})
		if err := tx.Commit(); !errors.Is(err, stoat.ErrConflict) {
			t.Fatalf("Commit says %v", err)
		}
		disk.SetHook(nil)
		synctest.Wait()
		if s := db.Stats(); s.ApartBytes == 0 || s.Values != 0 {
			t.Errorf("%d bytes were written apart, %d files of them are there", s.ApartBytes, s.Values)
		}
		testkit.Must(t, db.Close())
	})
}
