package behaviour

import (
	"io/fs"
	"maps"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// mustExist opens the database of a disk if there is one.
func mustExist(disk *memfs.FS) (*stoat.DB, error) {
	return stoat.Open(testkit.Dir, &stoat.Options{FS: disk, MustExist: true})
}

func TestMustExist_CreatesNothing(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	disk.SetHook(func(op vfs.Op) { t.Errorf("Open does %v", op) })
	_, err := mustExist(disk)
	testkit.WantError(t, "open of nothing", err, fs.ErrNotExist)

	disk.SetHook(nil)
	testkit.Must(t, disk.MkdirAll(testkit.Dir))
	disk.SetHook(func(op vfs.Op) { t.Errorf("Open does %v", op) })
	_, err = mustExist(disk)
	testkit.WantError(t, "open of an empty directory", err, fs.ErrNotExist)

	disk.SetHook(nil)
	f, err := disk.Create(disk.Join(testkit.Dir, "letter"), vfs.CatTemp)
	testkit.Must(t, err)
	testkit.Must(t, f.Close())
	disk.SetHook(func(op vfs.Op) { t.Errorf("Open does %v", op) })
	_, err = mustExist(disk)
	testkit.WantError(t, "open of a directory with a foreign file", err, fs.ErrNotExist)
}

func TestMustExist_OpensADatabaseToWrite(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	testkit.Must(t, disk.Remove(disk.Join(testkit.Dir, "LOCK")))
	db, err := mustExist(disk)
	testkit.Must(t, err)
	_, err = mustExist(disk)
	testkit.WantError(t, "second open", err, stoat.ErrLocked)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte("value")) }))
	testkit.Must(t, db.Close())
}

// A directory with tables and without a manifest holds a damaged database. Reporting
// that there is none would hide that.
func TestMustExist_ReportsALostManifest(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	for name := range maps.Keys(testkit.FilesOf(t, disk, testkit.Dir)) {
		if info, err := disk.Stat(disk.Join(testkit.Dir, name)); err == nil && !info.Dir && name[:3] == "MAN" {
			testkit.Must(t, disk.Remove(disk.Join(testkit.Dir, name)))
		}
	}
	_, err := mustExist(disk)
	testkit.WantError(t, "open without a manifest", err, stoat.ErrCorrupt)
}

// The process that made the directory may have died before the database was there. No
// open with MustExist takes the rest for a database, and the next open without it
// creates one.
func TestMustExist_FindsNoDatabaseInAHalfMadeOne(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	stop := testkit.States(disk)
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.Must(t, err)
	states := stop()
	testkit.Must(t, db.Close())
	none := 0
	for _, state := range states {
		switch db, err := mustExist(state.Disk); err {
		case nil:
			testkit.Must(t, db.Close())
		default:
			testkit.WantError(t, "open of a half-made database", err, fs.ErrNotExist)
			none++
			testkit.Must(t, testkit.OpenOn(t, state.Disk, nil).Close())
		}
	}
	if none == 0 || none == len(states) {
		t.Errorf("%d of %d states hold no database", none, len(states))
	}
}
