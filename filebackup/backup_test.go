package filebackup

import (
	"errors"
	"io"
	"testing"

	"github.com/stoatdb/stoat/vfs"
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
