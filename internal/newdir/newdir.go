// Package newdir gives the directory of a new database its name. A restore, a salvage or a
// checkpoint fills it under another name first. So the name shows a whole database or none.
package newdir

import (
	"errors"

	"github.com/stoatdb/stoat/vfs"
)

// Free returns an error unless nothing has the name dir.
func Free(fs vfs.FS, dir string) error {
	_, err := fs.Stat(dir)
	switch {
	case err == nil:
		return vfs.ErrExist
	case errors.Is(err, vfs.ErrNotExist):
		return nil
	}
	return err
}

// AddLock creates the lock file of the database in dir, by which its readers keep a writer
// out. It also shows that the directory has a database, and not an unfinished copy of one.
// So it comes when the directory has its name. The database is whole without it.
func AddLock(fs vfs.FS, dir, name string) error {
	f, err := fs.Create(fs.Join(dir, name), vfs.CatLock)
	if err == nil {
		err = f.Close()
	}
	return errors.Join(err, fs.SyncDir(dir))
}

// Publish gives temp the name dir, durably. The database in temp must be whole and synced.
func Publish(fs vfs.FS, temp, dir string) error {
	if err := Free(fs, dir); err != nil {
		return err
	}
	if err := fs.Rename(temp, dir); err != nil {
		return err
	}
	if err := fs.SyncDir(fs.Dir(dir)); err != nil {
		// It is unknown which name a crash would leave. The database is whole under each.
		return errors.Join(err, fs.Rename(dir, temp))
	}
	return nil
}
