package stoat_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// contentOf returns every file of the database and its bytes.
func contentOf(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := fs.List(dir)
	must(t, err)
	files := make(map[string]string)
	for _, name := range names {
		b, err := readFile(fs, fs.Join(dir, name))
		must(t, err)
		files[name] = string(b)
	}
	return files
}

// readAll opens the database read-only, reads all of it in every way and
// checks it, and returns what it holds.
func readAll(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	db, err := stoat.Open(dir, &stoat.Options{FS: fs, ReadOnly: true})
	must(t, err)
	items := make(map[string]string)
	must(t, db.View(func(tx *stoat.Txn) error {
		for k, v := range tx.All() {
			items[string(k)] = string(v)
			if got, err := tx.Get(k); err != nil || !bytes.Equal(got, v) {
				t.Errorf("key %q: scanned %d bytes, got %d, error %v", k, len(v), len(got), err)
			}
		}
		return tx.Err()
	}))
	mustBeSound(t, db)
	if err := db.Sync(); err != nil { // as it is when nobody closed the database
		wantError(t, "Sync", err, stoat.ErrReadOnly)
	}
	must(t, db.Close())
	return items
}

// mustChangeNothing demands that reading all of a database on a disk leaves
// every byte as it is, and calls nothing that could change one.
func mustChangeNothing(t *testing.T, what string, disk *memfs.FS) map[string]string {
	t.Helper()
	before := contentOf(t, disk, dbDir)
	disk.SetHook(func(op vfs.Op) {
		if op.Kind.Mutates() && op.Kind != vfs.OpLock {
			t.Errorf("%s: reading does %v", what, op)
		}
	})
	items := readAll(t, disk, dbDir)
	disk.SetHook(nil)
	if after := contentOf(t, disk, dbDir); !maps.Equal(before, after) {
		t.Errorf("%s: the directory has changed", what)
	}
	return items
}

func TestReadOnlyDatabaseChangesNotAByteOfTheDirectory(t *testing.T) {
	t.Parallel()
	clean := newCheckedDisk(t)
	want := mustChangeNothing(t, "a clean database", clean)
	if len(want) != 1410 {
		t.Errorf("%d keys", len(want))
	}

	full := clean.Clone()
	full.SetCapacity(full.UsedBytes())
	if got := mustChangeNothing(t, "a full disk", full); !maps.Equal(got, want) {
		t.Errorf("a full disk shows %d keys, want %d", len(got), len(want))
	}

	unlocked := clean.Clone()
	must(t, unlocked.Remove(unlocked.Join(dbDir, "LOCK")))
	if got := mustChangeNothing(t, "no LOCK", unlocked); !maps.Equal(got, want) {
		t.Errorf("without a LOCK there are %d keys, want %d", len(got), len(want))
	}

	db := openOn(t, clean, nil)
	setAll(t, db, 2000, 2300, 600, 7)
	must(t, db.Sync())
	killed := clean.Clone()
	cut := []*memfs.FS{}
	for i, kind := range memfs.CrashKinds() {
		cut = append(cut, clean.Crash(kind, rand.New(rand.NewPCG(1, uint64(i)))))
	}
	must(t, db.Close())
	for i, disk := range append(cut, killed) {
		got := mustChangeNothing(t, fmt.Sprintf("crash %d", i), disk)
		for k, v := range want {
			if got[k] != v {
				t.Fatalf("crash %d: key %q has %d bytes, want %d", i, k, len(got[k]), len(v))
			}
		}
		if len(got) != len(want)+300 {
			t.Errorf("crash %d: %d keys, want %d", i, len(got), len(want)+300)
		}
	}
}

func TestReadOnlyDatabaseOpensOnAReadOnlyMedium(t *testing.T) {
	t.Parallel()
	disk := newCheckedDisk(t)
	medium := faultfs.New(disk)
	for kind := vfs.OpCreate; kind <= vfs.OpClose; kind++ {
		if kind.Mutates() || kind == vfs.OpOpenReadWrite {
			medium.Add(faultfs.Rule{Op: kind, Forever: true, Err: vfs.ErrReadOnly})
		}
	}
	if got := readAll(t, medium, dbDir); len(got) != 1410 {
		t.Errorf("%d keys", len(got))
	}
}

func TestReadOnlyDatabaseKeepsFilesOfTheSystemUntouched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := stoat.Open(dir, &stoat.Options{MemtableSize: 64 << 10})
	must(t, err)
	setAll(t, db, 0, 1000, 300, 1)
	must(t, db.Close())
	stat := func() (all string) {
		entries, err := os.ReadDir(dir)
		must(t, err)
		info, err := os.Stat(dir)
		must(t, err)
		all = info.ModTime().String()
		for _, e := range entries {
			info, err := e.Info()
			must(t, err)
			all += fmt.Sprintln(e.Name(), info.Size(), info.Mode(), info.ModTime())
		}
		return all
	}
	before, content := stat(), contentOf(t, vfs.OS(), dir)
	if got := readAll(t, vfs.OS(), dir); len(got) != 1000 {
		t.Errorf("%d keys", len(got))
	}
	if after := stat(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if !maps.Equal(content, contentOf(t, vfs.OS(), dir)) {
		t.Error("the contents have changed")
	}
	must(t, os.Remove(filepath.Join(dir, "LOCK")))
	if got := readAll(t, vfs.OS(), dir); len(got) != 1000 {
		t.Errorf("without a LOCK: %d keys", len(got))
	}
	if _, err := os.Stat(filepath.Join(dir, "LOCK")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the LOCK is there again: %v", err)
	}
}

func TestReadOnlyDatabaseRefusesToWrite(t *testing.T) {
	t.Parallel()
	db := openOn(t, newCheckedDisk(t), func(o *stoat.Options) { o.ReadOnly = true })
	_, err := db.Begin(stoat.ReadWrite)
	wantError(t, "Begin", err, stoat.ErrReadOnly)
	wantError(t, "Update", db.Update(func(*stoat.Txn) error { t.Error("it runs"); return nil }), stoat.ErrReadOnly)
	wantError(t, "Compact", db.Compact(t.Context(), stoat.CompactOptions{}), stoat.ErrReadOnly)
	wantError(t, "Checkpoint", db.Checkpoint(t.Context(), "/copy"), stoat.ErrReadOnly)
	must(t, db.View(func(tx *stoat.Txn) error {
		wantError(t, "Set", tx.Set([]byte("k"), nil), stoat.ErrReadOnly)
		return nil
	}))
	must(t, db.Sync())
	must(t, db.Close())
	wantError(t, "Sync after Close", db.Sync(), stoat.ErrClosed)
}

func TestSyncOfAReadOnlyDatabaseDoesNotVouchForAnUnprovenTail(t *testing.T) {
	t.Parallel()
	disk := newCheckedDisk(t)
	writer := openOn(t, disk, nil)
	setAll(t, writer, 2000, 2001, 600, 7) // buffered
	killed := disk.Clone()
	must(t, writer.Close())
	readOnly := func(o *stoat.Options) { o.ReadOnly = true }

	reader := openOn(t, killed, readOnly)
	must(t, reader.View(func(tx *stoat.Txn) error {
		_, err := tx.Get(treeKey(2000))
		return err
	}))
	wantError(t, "Sync", reader.Sync(), stoat.ErrReadOnly)
	must(t, reader.Close())

	must(t, openOn(t, killed, nil).Close()) // writes the tail again
	reader = openOn(t, killed, readOnly)
	must(t, reader.Sync())
	must(t, reader.Close())
}

func TestReadOnlyOpenMakesNoDatabase(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	opts := &stoat.Options{FS: disk, ReadOnly: true}
	_, err := stoat.Open(dbDir, opts)
	wantError(t, "open of nothing", err, fs.ErrNotExist)
	if _, err := disk.Stat(dbDir); !errors.Is(err, vfs.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
	must(t, disk.MkdirAll(dbDir))
	_, err = stoat.Open(dbDir, opts)
	wantError(t, "open of an empty directory", err, vfs.ErrNotExist)
}

func TestReadOnlyOpenIsKeptOutByAWriterAndKeepsOneOut(t *testing.T) {
	t.Parallel()
	disk := newCheckedDisk(t)
	writer := openOn(t, disk, nil)
	_, err := stoat.Open(dbDir, &stoat.Options{FS: disk, ReadOnly: true})
	wantError(t, "reader beside a writer", err, stoat.ErrLocked)
	must(t, writer.Close())
	reader := openOn(t, disk, func(o *stoat.Options) { o.ReadOnly = true })
	_, err = stoat.Open(dbDir, &stoat.Options{FS: disk})
	wantError(t, "writer beside a reader", err, stoat.ErrLocked)
	another := openOn(t, disk, func(o *stoat.Options) { o.ReadOnly = true })
	must(t, reader.Close())
	_, err = stoat.Open(dbDir, &stoat.Options{FS: disk})
	wantError(t, "writer beside another reader", err, stoat.ErrLocked)
	must(t, another.Close())
	must(t, openOn(t, disk, nil).Close())
}
