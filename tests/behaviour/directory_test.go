package behaviour

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A path that is relative is that of the moment of Open, for all files that are
// made later as well.
func TestDirectory_ChangeOfTheWorkingDirectoryLosesNoCommit(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"A", "B/db"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	t.Chdir(filepath.Join(dir, "A"))
	db, err := stoat.Open("db", nil)
	testkit.Must(t, err)
	t.Chdir(filepath.Join(dir, "B"))
	for i := range 4 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			return tx.Set(fmt.Appendf(nil, "k%d", i), make([]byte, 3000))
		}))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	}
	testkit.Must(t, db.Checkpoint(t.Context(), "copy"))
	testkit.Must(t, db.Close())
	t.Chdir(dir)
	for _, place := range []string{"A/db", "B/copy"} {
		db, err := stoat.Open(place, &stoat.Options{ReadOnly: true})
		testkit.Must(t, err)
		for i := range 4 {
			testkit.Must(t, db.View(func(tx stoat.Txn) error { _, err := tx.Get(fmt.Appendf(nil, "k%d", i)); return err }))
		}
		testkit.Must(t, db.Close())
	}
	if names, err := os.ReadDir("B/db"); err != nil || len(names) > 0 {
		t.Errorf("the directory of the same name has got %v, error %v", names, err)
	}
}

func TestDirectory_RefusesAnEmptyName(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, o := range []*stoat.Options{nil, {ReadOnly: true}, {FS: memfs.NewVolatile()}} {
		if _, err := stoat.Open("", o); err == nil || !strings.Contains(err.Error(), "empty") {
			t.Errorf("Open of no name says %v", err)
		}
	}
	if err := testkit.OpenMem(t).Checkpoint(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("Checkpoint to no name says %v", err)
	}
	if names, err := os.ReadDir("."); err != nil || len(names) > 0 {
		t.Errorf("the working directory has got %v, error %v", names, err)
	}
}

// The system may take names for durable whose sync has failed. The sync is that of a directory
// above the database, or of the database.
func TestDirectory_AfterAFailedSyncOfNamesTheNextOpenLosesNoCommit(t *testing.T) {
	t.Parallel()
	const dir = "/a/b/db"
	for _, keys := range []stoat.KeyProvider{nil, testkit.Keys} {
		for nth := int64(1); ; nth++ {
			disk := memfs.New()
			faults := faultfs.New(disk)
			fault := faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Nth: nth, Sync: vfs.SyncDropped})
			opts := &stoat.Options{FS: faults, Keys: keys}
			db, failed := stoat.Open(dir, opts)
			if failed == nil {
				failed = db.Close()
			}
			if fault.Fired() == 0 {
				break
			}
			db, err := stoat.Open(dir, opts)
			testkit.Must(t, err)
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), nil) }))
			left := disk.Crash(memfs.KeepNone, nil)
			testkit.Must(t, db.Close())
			db, err = stoat.Open(dir, &stoat.Options{FS: left, Keys: keys, MustExist: true})
			if err == nil {
				err = db.View(func(tx stoat.Txn) error { _, err := tx.Get([]byte("key")); return err })
				testkit.Must(t, db.Close())
			}
			if err != nil {
				t.Errorf("encrypted %t: sync %d of names failed with %v, then the power: %v", keys != nil, nth, failed, err)
			}
		}
	}
}
