package stoat

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Nothing refers to what a transaction wrote apart before it was found to conflict.
// Nobody else need do anything for the space to come back.
func TestWhatAConflictingTransactionWroteApartIsGivenBackAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db, err := Open("/db", &Options{FS: disk, MemtableSize: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		tx, err := db.Begin(ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Get([]byte("k")); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		if err := tx.Set([]byte("large"), make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		disk.SetHook(func(op vfs.Op) {
			if op.Kind != vfs.OpCreate || op.Category != vfs.CatValue {
				return
			}
			once.Do(func() { // after its first look for conflicts, before the second
				if err := db.Update(func(tx *Txn) error { return tx.Set([]byte("k"), []byte("v")) }); err != nil {
					t.Error(err)
				}
			})
		})
		if err := tx.Commit(); !errors.Is(err, ErrConflict) {
			t.Fatalf("Commit says %v", err)
		}
		disk.SetHook(nil)
		synctest.Wait()
		if s := db.Stats(); s.ApartBytes == 0 || s.Values != 0 {
			t.Errorf("%d bytes were written apart, %d files of them are there", s.ApartBytes, s.Values)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Keys may be long. Files whose keys there is no memory for are left for later.
func TestCollectionTakesNoMoreFilesAtOnceThanItHasMemoryFor(t *testing.T) {
	t.Parallel()
	db, err := openDriven("/db", &Options{FS: memfs.New()}, still{})
	if err != nil {
		t.Fatal(err)
	}
	var files []*manifest.ValueFile
	for _, keys := range []string{"a", "b", "c"} {
		if err := leaveGarbage(db, keys); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range db.manifest.State().Version.Values {
		if f.Live > 0 {
			files = append(files, f.ValueFile)
		}
	}
	all, err := db.liveIn(files, liveBytes, db.stopped)
	if err != nil || len(all) != len(files) || len(files) < 3 {
		t.Fatalf("%d of %d files, %v", len(all), len(files), err)
	}
	two := all[files[0].Num].bytes() + all[files[1].Num].bytes()
	for most, want := range map[int]int{two: 2, two - 1: 1, 1: 1} {
		some, err := db.liveIn(files, most, db.stopped)
		if err != nil || len(some) != want {
			t.Errorf("in %d bytes: %d files, want %d, %v", most, len(some), want, err)
		}
		for n, live := range some {
			if live.bytes() != all[n].bytes() {
				t.Errorf("in %d bytes: %d bytes of file %d, want %d", most, live.bytes(), n, all[n].bytes())
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// Garbage may have left no room for values to be gathered. When it has been collected
// there is, although a reader keeps the old files for now.
func TestTheCompactorLooksAgainWhenGarbageHasBeenCollected(t *testing.T) {
	t.Parallel()
	db, err := openDriven("/db", &Options{FS: memfs.New()}, still{})
	if err != nil {
		t.Fatal(err)
	}
	if err := leaveGarbage(db, "key"); err != nil {
		t.Fatal(err)
	}
	reader, err := db.Begin(ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Get([]byte("key-00")); err != nil {
		t.Fatal(err)
	}
	for len(db.background.compactor.work) > 0 {
		<-db.background.compactor.work
	}
	if err := db.collectStep(); err != nil {
		t.Fatal(err)
	}
	if s := db.Stats(); s.Collections == 0 || s.GarbageFiles == 0 {
		t.Fatalf("%d files were collected, of which a reader keeps %d", s.Collections, s.GarbageFiles)
	}
	if len(db.background.compactor.work) == 0 {
		t.Error("nobody tells the compactor")
	}
	reader.Discard()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
