package backup

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/filebackup"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A racingFS is a file system on which another restore publishes its database while this one
// makes or locks its directory.
type racingFS struct {
	vfs.FS
	before string // the call before which it publishes
	once   bool
}

func (f *racingFS) publish(at, dir string) {
	if at != f.before || dir != "/r.restore" || f.once {
		return
	}
	f.once = true
	_ = f.FS.MkdirAll("/r.restore")
	_ = f.FS.Rename("/r.restore", "/r")
}

func (f *racingFS) MkdirAll(dir string) error {
	f.publish("mkdir", dir)
	return f.FS.MkdirAll(dir)
}

func (f *racingFS) LockDir(dir string) (io.Closer, error) {
	f.publish("lock", dir)
	return f.FS.LockDir(dir)
}

func TestRestore_BesideAnotherThatEndsFindsItsDatabaseAndLeavesNothing(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, db, 0, 50, 700, 'x')
	full, _ := backUp(t, db, stoat.BackupOptions{})
	store := filebackup.Dir(memfs.New(), "/store")
	_, err := filebackup.Backup(t.Context(), db, store, filebackup.Options{FS: disk, Temp: "/temp"})
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
	for name, restore := range map[string]func(fs vfs.FS) error{
		"restore": func(fs vfs.FS) error {
			_, err := stoat.Restore(t.Context(), "/r", stoat.RestoreOptions{Options: &stoat.Options{FS: fs}}, bytes.NewReader(full))
			return err
		},
		"file restore": func(fs vfs.FS) error {
			_, err := filebackup.Restore(t.Context(), store, "", "/r", filebackup.RestoreOptions{FS: fs})
			return err
		},
	} {
		for _, before := range []string{"mkdir", "lock"} {
			disk := &racingFS{FS: memfs.New(), before: before}
			if err := restore(disk); !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s, another one ends before %s: error %v, want that the directory exists", name, before, err)
			}
			if _, err := disk.Stat("/r.restore"); !errors.Is(err, vfs.ErrNotExist) {
				t.Errorf("%s, another one ends before %s: its directory is left, %v", name, before, err)
			}
		}
	}
}
