package testkit

import (
	"errors"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Dir is where the databases of the tests lie on their memory disks.
const Dir = "/db"

// CopyDir is where the tests make their checkpoints.
const CopyDir = "/copies/one"

// NewSampleDisk makes a database with tables in several levels, value files,
// deletions and a log, closes it and returns its disk.
func NewSampleDisk(t *testing.T) *memfs.FS {
	t.Helper()
	disk := memfs.New()
	db := OpenOn(t, disk, nil)
	SetKeys(t, db, 0, 1000, 100, 1)
	SetKeys(t, db, 1000, 1200, 3000, 1)
	Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	SetKeys(t, db, 500, 1500, 200, 2)
	SetKeys(t, db, 1100, 1150, 5000, 3)
	DeleteKeys(t, db, 0, 100)
	SetKeys(t, db, 0, 10, 100, 4)
	Must(t, db.Close())
	return disk
}

// OpenOn opens a database in Dir with a memtable of 128 KiB, after change has
// had the options.
func OpenOn(t *testing.T, fs *memfs.FS, change func(*stoat.Options)) *stoat.DB {
	t.Helper()
	opts := &stoat.Options{FS: fs, MemtableSize: 128 << 10}
	if change != nil {
		change(opts)
	}
	db, err := stoat.Open(Dir, opts)
	Must(t, err)
	return db
}

// OpenMem opens a database on a disk of its own and closes it at the end.
func OpenMem(t *testing.T) *stoat.DB {
	t.Helper()
	db, err := stoat.Open(Dir, &stoat.Options{FS: memfs.New()})
	Must(t, err)
	t.Cleanup(func() { Must(t, db.Close()) })
	return db
}

// Begin begins a transaction and fails the test if it cannot.
func Begin(t *testing.T, db *stoat.DB, mode stoat.Mode) stoat.Txn {
	t.Helper()
	tx, err := db.Begin(mode)
	Must(t, err)
	return tx
}

// VersionOf returns the newest version that a database shows.
func VersionOf(db *stoat.DB) (version uint64, err error) {
	err = db.View(func(tx stoat.Txn) error {
		version = tx.ReadVersion()
		return nil
	})
	return version, err
}

// WaitForFlushes waits until no memtable waits to be flushed. A memtable that Open
// has replayed may stay until the first commit.
func WaitForFlushes(db *stoat.DB) error {
	if db.Stats().Commits == 0 {
		return nil
	}
	for deadline := time.Now().Add(time.Minute); db.Stats().Memtables > 1; time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			return errors.New("memtables are not flushed")
		}
	}
	return nil
}
