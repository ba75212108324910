package backup

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/filebackup"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestFileBackup_ALifeOfBackupsRestoresToEachSnapshot(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	for i := range dose.Short(1, 4) {
		if err := RunFiles(seed+uint64(i), 20); err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
	}
}

func TestFileBackupDamages_EachIsRefused(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	dose.Reproduce(t, "backup-damages")
	n := dose.Size(t, dose.Flips, 200, 1000)
	for i := range 4 {
		if err := RunFileDamages(seed+uint64(i), max(1, n/4)); err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
	}
}

func TestFileBackup_APowerCutLeavesEveryListedBackupWhole(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	states := dose.Size(t, dose.States, 20, 300)
	for i := range testkit.Raced(3, 1) {
		if err := runFileCrashes(seed+uint64(i), states/testkit.Raced(3, 6)); err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
	}
}

func TestFileRestore_APowerCutLeavesNothingOrAllAndAnotherRestoreGoesOn(t *testing.T) {
	t.Parallel()
	cutRestores(t, runFileRestoreCrashes)
}

func TestFileBackup_AFailingDiskLeavesEveryListedBackupWhole(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	failed := 0
	for i := range 4 {
		n, err := RunFileFaults(seed+uint64(i), dose.Short(20, 100))
		if err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
		failed += n
	}
	if failed == 0 {
		t.Error("no call failed")
	}
}

// openOn opens a database on a disk, and closes it at the end.
func openOn(t *testing.T, disk *memfs.FS, change func(*stoat.Options)) *stoat.DB {
	t.Helper()
	db := testkit.OpenOn(t, disk, change)
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	return db
}

// A chain of 20 backups costs the files that are new, and each of them is complete.
func TestFileBackup_AChainCopiesOnlyNewFiles(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	disk, storeDisk := memfs.New(), memfs.New()
	db := openOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 256 << 10 })
	store := filebackup.Dir(storeDisk, "/store")
	testkit.SetKeys(t, db, 0, 12_000, 700, 'x')
	testkit.Must(t, db.Compact(ctx, stoat.CompactOptions{}))
	full, err := filebackup.Backup(ctx, db, store, filebackup.Options{FS: disk, Temp: "/temp"})
	testkit.Must(t, err)
	if full.Copied != full.Files || full.CopiedBytes != full.Bytes {
		t.Errorf("the first backup has %+v", full)
	}
	var later int64
	var want []map[string]string
	chain := dose.Short(5, 20)
	for i := range chain {
		testkit.SetKeys(t, db, 12_000+i*20, 12_000+i*20+20, 700, 'y')
		r, err := filebackup.Backup(ctx, db, store, filebackup.Options{FS: disk, Temp: "/temp"})
		testkit.Must(t, err)
		later += r.CopiedBytes
		want = append(want, valuesOf(t, db))
	}
	t.Logf("the first backup copied %d bytes, and %d later ones %d together", full.CopiedBytes, chain, later)
	// Each backup copies its own manifest, and what merges rewrite.
	if later > full.Bytes {
		t.Errorf("%d backups of 14 kB each copied %d bytes, the first one %d", chain, later, full.CopiedBytes)
	}
	infos, err := filebackup.List(ctx, store)
	testkit.Must(t, err)
	for i, info := range infos[1:] {
		got := memfs.New()
		_, err := filebackup.Restore(ctx, store, info.ID, "/r", filebackup.RestoreOptions{FS: got})
		testkit.Must(t, err)
		o := stoat.Options{FS: got}
		r, err := stoat.Open("/r", &o)
		testkit.Must(t, err)
		if all := valuesOf(t, r); !maps.Equal(all, want[i]) {
			t.Errorf("backup %d has %d keys, want %d, or other values", i, len(all), len(want[i]))
		}
		testkit.Must(t, r.Close())
	}
}

// The first backup reads a wrong byte, as after an error in memory. Its list has the checksum of
// what it read, so the function Verify finds nothing.
func TestFileBackup_ThatVerifiesReplacesACopyThatWasWrongFromTheStart(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{".table", ".values"} {
		disk := memfs.New()
		db := openOn(t, disk, nil)
		testkit.SetKeys(t, db, 0, 300, 200, 'x')
		testkit.SetKeys(t, db, 300, 320, 3000, 'y')
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		flip := func() (flipped int) {
			names, err := disk.List(testkit.Dir)
			testkit.Must(t, err)
			for _, name := range names {
				path := disk.Join(testkit.Dir, name)
				content, err := testkit.ReadFile(disk, path)
				testkit.Must(t, err)
				if strings.HasSuffix(name, suffix) && len(content) > 8<<10 {
					content[len(content)/4] ^= 1
					testkit.Must(t, testkit.WriteFile(disk, path, content))
					flipped++
				}
			}
			return flipped
		}
		store := filebackup.Dir(memfs.New(), "/store")
		wrong := flip()
		_, err := filebackup.Backup(t.Context(), db, store, filebackup.Options{FS: disk, Temp: "/temp"})
		testkit.Must(t, err)
		flip()
		r, err := filebackup.Backup(t.Context(), db, store, filebackup.Options{FS: disk, Temp: "/temp", Verify: true})
		testkit.Must(t, err)
		if wrong == 0 || r.Copied < wrong {
			t.Errorf("%d files %s were wrong, the backup reports %+v", wrong, suffix, r)
		}
		_, err = filebackup.Restore(t.Context(), store, r.ID, "/r", filebackup.RestoreOptions{FS: disk})
		testkit.Must(t, err)
		restored, err := stoat.Open("/r", &stoat.Options{FS: disk})
		testkit.Must(t, err)
		testkit.MustBeSound(t, restored)
		testkit.Must(t, restored.Close())
	}
}

// A copy on another file system has the same files as the database.
func TestFileBackup_OnAnotherFileSystemCopiesOnlyNewFiles(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{false, true} {
		for _, follower := range []bool{false, true} {
			disk := memfs.New()
			faults := faultfs.New(disk)
			faults.Add(faultfs.Rule{Op: vfs.OpLink, Forever: true, Err: vfs.ErrUnsupported})
			o := &stoat.Options{FS: faults, Keys: testkit.KeysIf(encrypted)}
			db, err := stoat.Open(testkit.Dir, o)
			testkit.Must(t, err)
			testkit.SetKeys(t, db, 0, 1000, 700, 'x')
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			source := db
			if follower {
				source, err = stoat.OpenFollower(testkit.Dir, o)
				testkit.Must(t, err)
			}
			store := filebackup.Dir(memfs.New(), "/store")
			for i := range 2 {
				r, err := filebackup.Backup(t.Context(), source, store, filebackup.Options{FS: faults, Temp: "/temp"})
				testkit.Must(t, err)
				if i > 0 && r.Copied > 1 { // its manifest
					t.Errorf("encrypted %v, follower %v: of %d files, %d were copied again", encrypted, follower, r.Files, r.Copied)
				}
			}
			if follower {
				testkit.Must(t, source.Close())
			}
			want := valuesOf(t, db)
			testkit.Must(t, db.Close())
			_, err = filebackup.Restore(t.Context(), store, "", "/r", filebackup.RestoreOptions{FS: disk, Keys: o.Keys})
			testkit.Must(t, err)
			restored, err := stoat.Open("/r", &stoat.Options{FS: disk, Keys: o.Keys})
			testkit.Must(t, err)
			if got := valuesOf(t, restored); !maps.Equal(got, want) {
				t.Errorf("encrypted %v, follower %v: %d keys, want %d, or other values", encrypted, follower, len(got), len(want))
			}
			testkit.Must(t, restored.Close())
		}
	}
}

func TestFileBackup_UnderConcurrentWritesIsExactlyASnapshot(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l := newLedger()
	disk := memfs.New()
	l.db = openOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
	store := filebackup.Dir(memfs.New(), "/store")
	stop := l.write(t)
	var ids []string
	for range 6 {
		l.commitSome(t, 20)
		r, err := filebackup.Backup(ctx, l.db, store, filebackup.Options{FS: disk, Temp: "/temp"})
		testkit.Must(t, err)
		ids = append(ids, r.ID)
	}
	stop()
	before := 0
	for n, id := range ids {
		got := memfs.New()
		_, err := filebackup.Restore(ctx, store, id, "/r", filebackup.RestoreOptions{FS: got})
		testkit.Must(t, err)
		db, err := stoat.Open("/r", &stoat.Options{FS: got})
		testkit.Must(t, err)
		all := valuesOf(t, db)
		testkit.MustBeSound(t, db)
		testkit.Must(t, db.Close())
		count := l.check(t, fmt.Sprint("backup ", n), all)
		if count <= before {
			t.Errorf("backup %d has %d commits, the one before %d", n, count, before)
		}
		before = count
	}
}

func TestFileBackup_RestoredDatabasesHaveIdentitiesOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{false, true} {
		ctx := t.Context()
		disk := memfs.New()
		keys := testkit.KeysIf(encrypted)
		db := openOn(t, disk, func(o *stoat.Options) { o.Keys = keys })
		testkit.SetKeys(t, db, 0, 300, 700, 'x')
		store := filebackup.Dir(memfs.New(), "/store")
		_, err := filebackup.Backup(ctx, db, store, filebackup.Options{FS: disk, Temp: "/temp"})
		testkit.Must(t, err)
		seen := map[string]bool{}
		for range 3 {
			got := memfs.New()
			_, err := filebackup.Restore(ctx, store, "", "/r", filebackup.RestoreOptions{FS: got, Keys: keys})
			testkit.Must(t, err)
			copied, err := stoat.Open("/r", &stoat.Options{FS: got, Keys: keys})
			testkit.Must(t, err)
			_, info := backUp(t, copied, stoat.BackupOptions{})
			seen[info.Database] = true
			testkit.Must(t, copied.Close())
		}
		if len(seen) != 3 {
			t.Errorf("3 databases have %d identities", len(seen))
		}
		if !encrypted {
			continue
		}
		// Files are copied as they are, so a restore needs no keys.
		got := memfs.New()
		_, err = filebackup.Restore(ctx, store, "", "/r", filebackup.RestoreOptions{FS: got})
		testkit.Must(t, err)
		copied, err := stoat.Open("/r", &stoat.Options{FS: got, Keys: keys})
		testkit.Must(t, err)
		if all := valuesOf(t, copied); len(all) != 300 {
			t.Errorf("%d keys", len(all))
		}
		testkit.Must(t, copied.Close())
		_, err = filebackup.Restore(ctx, store, "", "/wrong", filebackup.RestoreOptions{FS: got,
			Keys: stoat.StaticKeys(testkit.MasterKey("other"))})
		testkit.WantError(t, "restore with another master key", err, stoat.ErrKey)
	}
}

func TestFileRestore_RefusesWhatIsThere(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	disk, got := memfs.New(), memfs.New()
	db := openOn(t, disk, nil)
	testkit.SetKeys(t, db, 0, 300, 700, 'x')
	store := filebackup.Dir(memfs.New(), "/store")
	_, err := filebackup.Restore(ctx, store, "", "/r", filebackup.RestoreOptions{FS: got})
	testkit.WantError(t, "an empty store", err, filebackup.ErrNoBackup)
	_, err = filebackup.Backup(ctx, db, store, filebackup.Options{FS: disk, Temp: "/temp"})
	testkit.Must(t, err)
	testkit.Must(t, got.MkdirAll("/r.restore"))
	testkit.Must(t, testkit.WriteFile(got, "/r.restore/letter", []byte("hello")))
	if _, err = filebackup.Restore(ctx, store, "", "/r", filebackup.RestoreOptions{FS: got}); err == nil || !strings.Contains(err.Error(), "letter") {
		t.Errorf("beside the file of another program: %v", err)
	}
	testkit.Must(t, got.Remove("/r.restore/letter"))
	// Files of another restore are replaced, if they are not the right ones.
	testkit.Must(t, testkit.WriteFile(got, "/r.restore/000001.table", []byte("hello")))
	testkit.Must(t, testkit.WriteFile(got, "/r.restore/MANIFEST-000001", []byte("hello")))
	lock, err := got.LockDir("/r.restore")
	testkit.Must(t, err)
	_, err = filebackup.Restore(ctx, store, "", "/r", filebackup.RestoreOptions{FS: got})
	testkit.WantError(t, "beside another restore", err, stoat.ErrLocked)
	testkit.Must(t, lock.Close())
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = filebackup.Restore(canceled, store, "", "/r", filebackup.RestoreOptions{FS: got})
	testkit.WantError(t, "a canceled context", err, context.Canceled)
	_, err = filebackup.Restore(ctx, store, "", "/r", filebackup.RestoreOptions{FS: got})
	testkit.Must(t, err)
	_, err = filebackup.Restore(ctx, store, "", "/r", filebackup.RestoreOptions{FS: got})
	testkit.WantError(t, "a directory that exists", err, fs.ErrExist)
	for _, bad := range []filebackup.Options{{FS: disk}, {FS: disk, Temp: "/temp", Workers: -1}, {FS: disk, Temp: "/temp", Workers: 1000}} {
		_, err := filebackup.Backup(ctx, db, store, bad)
		testkit.WantError(t, fmt.Sprintf("%+v", bad), err, stoat.ErrInvalid)
	}
	_, err = filebackup.Prune(ctx, store, 0)
	testkit.WantError(t, "Prune of all", err, stoat.ErrInvalid)
}

func TestFilePrune_DeletesNoFilesBesideADamagedList(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	disk, storeDisk := memfs.New(), memfs.New()
	db := openOn(t, disk, nil)
	store := filebackup.Dir(storeDisk, "/store")
	var ids []string
	for i := range 3 {
		testkit.SetKeys(t, db, i*100, i*100+200, 700, 'x')
		r, err := filebackup.Backup(ctx, db, store, filebackup.Options{FS: disk, Temp: "/temp"})
		testkit.Must(t, err)
		ids = append(ids, r.ID)
	}
	path := "/store/lists/" + ids[1]
	was, err := testkit.ReadFile(storeDisk, path)
	testkit.Must(t, err)
	testkit.Must(t, storeDisk.Remove(path))
	testkit.Must(t, testkit.WriteFile(storeDisk, path, was[:len(was)-1]))
	before := len(testkit.FilesOf(t, storeDisk, "/store/files"))
	infos, err := filebackup.List(ctx, store)
	testkit.WantError(t, "List with a damaged list", err, stoat.ErrCorrupt)
	if len(infos) != 2 {
		t.Errorf("List has %d backups, want the 2 others", len(infos))
	}
	_, err = filebackup.Prune(ctx, store, 2)
	testkit.WantError(t, "Prune that keeps a damaged list", err, stoat.ErrCorrupt)
	if n := len(testkit.FilesOf(t, storeDisk, "/store/files")); n != before {
		t.Errorf("Prune left %d of %d files", n, before)
	}
	testkit.Must(t, filebackup.Delete(ctx, store, ids[1]))
	r, err := filebackup.Prune(ctx, store, 2)
	testkit.Must(t, err)
	if r.Files == 0 {
		t.Error("Prune has deleted no file")
	}
	_, err = filebackup.Verify(ctx, store, ids[2])
	testkit.Must(t, err)
}
