package filebackup

import (
	"errors"
	"io"
	"testing"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A departingFS is a file system on which another backup ends, and removes the directory that
// both use, just before this one locks it.
type departingFS struct {
	vfs.FS
	departed bool
}

func (f *departingFS) LockDir(dir string) (io.Closer, error) {
	if !f.departed {
		f.departed = true
		if err := f.Remove(dir); err != nil {
			return nil, err
		}
	}
	return f.FS.LockDir(dir)
}

func TestBackup_MakesItsDirectoryAgainAfterAnotherBackupRemovedIt(t *testing.T) {
	t.Parallel()
	disk := &departingFS{FS: memfs.New()}
	store := Dir(memfs.New(), "/store")
	if _, err := Backup(t.Context(), &fakeDatabase{fs: disk}, store, Options{FS: disk, Temp: "/temp"}); err != nil {
		t.Errorf("a backup beside one that ends: %v", err)
	}
	if _, err := disk.Stat("/temp"); !errors.Is(err, vfs.ErrNotExist) {
		t.Errorf("its directory is left: %v", err)
	}
}

// The system may take names for durable whose sync has failed.
func TestBackup_AfterAFailedSyncOfNamesTheNextOneSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	for nth := int64(1); ; nth++ {
		db, o, _ := newFake()
		disk := memfs.New()
		faults := faultfs.New(disk)
		fault := faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Nth: nth, Sync: vfs.SyncDropped})
		_, failed := Backup(t.Context(), db, Dir(faults, "/store"), o)
		if fault.Fired() == 0 {
			break
		}
		r, err := Backup(t.Context(), db, Dir(disk, "/store"), o)
		must(t, err)
		left := Dir(disk.Crash(memfs.KeepNone, nil), "/store")
		if _, err := Verify(t.Context(), left, r.ID); err != nil {
			t.Errorf("after sync %d of names failed with %v: %v", nth, failed, err)
		}
		if p, err := Prune(t.Context(), Dir(disk, "/store"), 1); err != nil || p.Files != 0 || p.Busy {
			t.Errorf("after sync %d of names failed, Prune reports %+v: %v", nth, p, err)
		}
		if names, err := disk.List("/store/partial"); err != nil || len(names) > 0 {
			t.Errorf("after sync %d of names failed, partial objects are left: %v, %v", nth, names, err)
		}
	}
}
