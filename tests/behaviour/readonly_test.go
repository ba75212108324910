package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// readAll opens the database read-only, reads all of it in every way and
// checks it, and returns what it holds.
func readAll(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	db, err := stoat.Open(dir, &stoat.Options{FS: fs, ReadOnly: true})
	testkit.Must(t, err)
	items := make(map[string]string)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for k, v := range tx.All() {
			items[string(k)] = string(v)
			if got, err := tx.Get(k); err != nil || !bytes.Equal(got, v) {
				t.Errorf("key %q: scanned %d bytes, got %d, error %v", k, len(v), len(got), err)
			}
		}
		return tx.Err()
	}))
	testkit.MustBeSound(t, db)
	if err := db.Sync(); err != nil { // as it is when the database was not closed
		testkit.WantError(t, "Sync", err, stoat.ErrReadOnly)
	}
	testkit.Must(t, db.Close())
	return items
}

// mustChangeNothing demands that reading all of a database on a disk leaves
// every byte as it is, and calls nothing that could change one.
func mustChangeNothing(t *testing.T, what string, disk *memfs.FS) map[string]string {
	t.Helper()
	before := testkit.FilesOf(t, disk, testkit.Dir)
	disk.SetHook(func(op vfs.Op) {
		if op.Kind.Mutates() && op.Kind != vfs.OpLock {
			t.Errorf("%s: reading does %v", what, op)
		}
	})
	items := readAll(t, disk, testkit.Dir)
	disk.SetHook(nil)
	if after := testkit.FilesOf(t, disk, testkit.Dir); !maps.Equal(before, after) {
		t.Errorf("%s: the directory has changed", what)
	}
	return items
}

func TestReadOnly_ChangesNotAByteOfTheDirectory(t *testing.T) {
	t.Parallel()
	clean := testkit.NewSampleDisk(t)
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
	testkit.Must(t, unlocked.Remove(unlocked.Join(testkit.Dir, "LOCK")))
	if got := mustChangeNothing(t, "no LOCK", unlocked); !maps.Equal(got, want) {
		t.Errorf("without a LOCK there are %d keys, want %d", len(got), len(want))
	}

	db := testkit.OpenOn(t, clean, nil)
	testkit.SetKeys(t, db, 2000, 2300, 600, 7)
	testkit.Must(t, db.Sync())
	killed := clean.Clone()
	cut := []*memfs.FS{}
	for i, kind := range memfs.CrashKinds() {
		cut = append(cut, clean.Crash(kind, rand.New(rand.NewPCG(1, uint64(i)))))
	}
	testkit.Must(t, db.Close())
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

func TestReadOnly_OpensOnAReadOnlyMedium(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	medium := faultfs.New(disk)
	for kind := vfs.OpCreate; kind <= vfs.OpClose; kind++ {
		if kind.Mutates() || kind == vfs.OpOpenReadWrite {
			medium.Add(faultfs.Rule{Op: kind, Forever: true, Err: vfs.ErrReadOnly})
		}
	}
	if got := readAll(t, medium, testkit.Dir); len(got) != 1410 {
		t.Errorf("%d keys", len(got))
	}
}

func TestReadOnly_LeavesFilesOfTheSystemUntouched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := stoat.Open(dir, &stoat.Options{MemtableSize: 64 << 10})
	testkit.Must(t, err)
	testkit.SetKeys(t, db, 0, 1000, 300, 1)
	testkit.Must(t, db.Close())
	stat := func() (all string) {
		entries, err := os.ReadDir(dir)
		testkit.Must(t, err)
		info, err := os.Stat(dir)
		testkit.Must(t, err)
		all = info.ModTime().String()
		for _, e := range entries {
			info, err := e.Info()
			testkit.Must(t, err)
			all += fmt.Sprintln(e.Name(), info.Size(), info.Mode(), info.ModTime())
		}
		return all
	}
	before, content := stat(), testkit.FilesOf(t, vfs.OS(), dir)
	if got := readAll(t, vfs.OS(), dir); len(got) != 1000 {
		t.Errorf("%d keys", len(got))
	}
	if after := stat(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if !maps.Equal(content, testkit.FilesOf(t, vfs.OS(), dir)) {
		t.Error("the contents have changed")
	}
	testkit.Must(t, os.Remove(filepath.Join(dir, "LOCK")))
	if got := readAll(t, vfs.OS(), dir); len(got) != 1000 {
		t.Errorf("without a LOCK: %d keys", len(got))
	}
	if _, err := os.Stat(filepath.Join(dir, "LOCK")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the LOCK is there again: %v", err)
	}
}

func TestReadOnly_RefusesToWrite(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, testkit.NewSampleDisk(t), func(o *stoat.Options) { o.ReadOnly = true })
	_, err := db.Begin(stoat.ReadWrite)
	testkit.WantError(t, "Begin", err, stoat.ErrReadOnly)
	testkit.WantError(t, "Update", db.Update(func(stoat.Txn) error { t.Error("it runs"); return nil }), stoat.ErrReadOnly)
	testkit.WantError(t, "Compact", db.Compact(t.Context(), stoat.CompactOptions{}), stoat.ErrReadOnly)
	testkit.WantError(t, "Checkpoint", db.Checkpoint(t.Context(), "/copy"), stoat.ErrReadOnly)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		testkit.WantError(t, "Set", tx.Set([]byte("k"), nil), stoat.ErrReadOnly)
		return nil
	}))
	testkit.Must(t, db.Sync())
	testkit.Must(t, db.Close())
	testkit.WantError(t, "Sync after Close", db.Sync(), stoat.ErrClosed)
}

func TestReadOnly_SyncDoesNotVouchForAnUnprovenTail(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	writer := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, writer, 2000, 2001, 600, 7) // buffered
	killed := disk.Clone()
	testkit.Must(t, writer.Close())
	readOnly := func(o *stoat.Options) { o.ReadOnly = true }

	reader := testkit.OpenOn(t, killed, readOnly)
	testkit.Must(t, reader.View(func(tx stoat.Txn) error {
		_, err := tx.Get(testkit.Key(2000))
		return err
	}))
	testkit.WantError(t, "Sync", reader.Sync(), stoat.ErrReadOnly)
	testkit.Must(t, reader.Close())

	testkit.Must(t, testkit.OpenOn(t, killed, nil).Close()) // writes the tail again
	reader = testkit.OpenOn(t, killed, readOnly)
	testkit.Must(t, reader.Sync())
	testkit.Must(t, reader.Close())
}

// An ingest is in the manifest only. A power cut may take it, and the next commit then gets
// its version.
func TestReadOnly_NeitherSyncNorBackupVouchesForAnUnprovenIngest(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	writer := testkit.OpenOn(t, disk, nil)
	var killed *memfs.FS
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpSyncData && op.Category == vfs.CatManifest && killed == nil {
			killed = disk.Clone()
		}
	})
	version, err := testkit.Ingest(writer, nil, []model.Write{testkit.SetKey(1, "ingested")})
	testkit.Must(t, err)
	disk.SetHook(nil)
	testkit.Must(t, writer.Close())
	readOnly := func(o *stoat.Options) { o.ReadOnly = true }
	backUp := func(db *stoat.DB) error {
		_, err := db.Backup(t.Context(), io.Discard, stoat.BackupOptions{})
		return err
	}

	reader := testkit.OpenOn(t, killed, readOnly)
	testkit.Must(t, reader.View(func(tx stoat.Txn) error {
		if v := tx.ReadVersion(); v != version {
			t.Errorf("the reader shows version %d, want the ingest, %d", v, version)
		}
		return nil
	}))
	testkit.WantError(t, "Sync", reader.Sync(), stoat.ErrReadOnly)
	testkit.WantError(t, "Backup", backUp(reader), stoat.ErrReadOnly)
	testkit.Must(t, reader.Close())

	testkit.Must(t, testkit.OpenOn(t, killed, nil).Close()) // writes a new manifest
	reader = testkit.OpenOn(t, killed, readOnly)
	testkit.Must(t, reader.Sync())
	testkit.Must(t, backUp(reader))
	testkit.Must(t, reader.Close())
}

func TestReadOnly_OpenMakesNoDatabase(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	opts := &stoat.Options{FS: disk, ReadOnly: true}
	_, err := stoat.Open(testkit.Dir, opts)
	testkit.WantError(t, "open of nothing", err, fs.ErrNotExist)
	if _, err := disk.Stat(testkit.Dir); !errors.Is(err, vfs.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
	testkit.Must(t, disk.MkdirAll(testkit.Dir))
	_, err = stoat.Open(testkit.Dir, opts)
	testkit.WantError(t, "open of an empty directory", err, vfs.ErrNotExist)
}

func TestReadOnly_IsKeptOutByAWriterAndKeepsOneOut(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	writer := testkit.OpenOn(t, disk, nil)
	_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk, ReadOnly: true})
	testkit.WantError(t, "reader beside a writer", err, stoat.ErrLocked)
	testkit.Must(t, writer.Close())
	reader := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ReadOnly = true })
	_, err = stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.WantError(t, "writer beside a reader", err, stoat.ErrLocked)
	another := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ReadOnly = true })
	testkit.Must(t, reader.Close())
	_, err = stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.WantError(t, "writer beside another reader", err, stoat.ErrLocked)
	testkit.Must(t, another.Close())
	testkit.Must(t, testkit.OpenOn(t, disk, nil).Close())
}
