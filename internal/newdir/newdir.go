// Package newdir gives the directory of a new database its name. A restore, a salvage or a
// checkpoint fills it under another name first. So the name shows a whole database or none.
package newdir

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stoatdb/stoat/vfs"
)

// LockName is the name of the lock file in the directory of a database.
const LockName = "LOCK"

// Unused returns an error if something has the name dir. That may be a symbolic link to nothing.
// Stat does not find it, but Publish cannot replace it.
func Unused(fs vfs.FS, dir string) error {
	_, err := fs.Stat(dir)
	if err == nil {
		return vfs.ErrExist
	}
	if !errors.Is(err, vfs.ErrNotExist) {
		return err
	}
	names, err := fs.List(fs.Dir(dir))
	switch {
	case errors.Is(err, vfs.ErrNotExist):
		return nil
	case err == nil && slices.Contains(names, fs.Base(dir)):
		return fmt.Errorf("%w: %s may be a symbolic link to nothing", vfs.ErrExist, dir)
	}
	return err
}

// Lock creates a directory, unless it exists, and locks it. The caller that has the lock may
// remove the directory or give it another name. So Lock may have to create it again.
func Lock(fs vfs.FS, dir string) (io.Closer, error) {
	for {
		if err := fs.MkdirAll(dir); err != nil {
			return nil, err
		}
		claim, err := fs.LockDir(dir)
		if !errors.Is(err, vfs.ErrNotExist) {
			return claim, err
		}
	}
}

// Claim is Lock of temp for a database that is to be named dir. Another process may publish
// dir meanwhile. Then Claim leaves no empty temp.
func Claim(fs vfs.FS, temp, dir string) (io.Closer, error) {
	claim, err := Lock(fs, temp)
	if err != nil {
		return nil, err
	}
	if err := Unused(fs, dir); err != nil {
		_ = fs.Remove(temp) // fails if an earlier process left files in it
		_ = claim.Close()   // nothing was written through it
		return nil, err
	}
	return claim, nil
}

// AddLock creates the lock file of the database in dir, by which its readers keep a writer
// out. It also shows that the directory has a database, and not an unfinished copy of one.
// So it comes when the directory has its name durably: LockDatabase relies on that. The
// database is whole without it.
func AddLock(fs vfs.FS, dir string) error {
	f, err := fs.Create(fs.Join(dir, LockName), vfs.CatLock)
	if err == nil {
		err = f.Close()
	}
	return errors.Join(err, fs.SyncDir(dir))
}

// LockDatabase takes the lock of the database in dir. It creates the directory and the lock
// file if they do not exist.
//
// The process that made dir, or gave it its name, may have died before that name was durable.
// Then dir has no lock file, which comes later. So MkdirAll makes the name durable, also if
// dir exists.
func LockDatabase(fs vfs.FS, dir string) (io.Closer, error) {
	path := fs.Join(dir, LockName)
	_, err := fs.Stat(path)
	if errors.Is(err, vfs.ErrNotExist) {
		err = fs.MkdirAll(dir)
	}
	if err != nil {
		return nil, err
	}
	return fs.Lock(path)
}

// Publish gives temp the name dir, durably. The database in temp must be whole and synced.
// If Publish fails in doubt, a crash may leave either name. Then the caller must not remove
// what temp has.
func Publish(fs vfs.FS, temp, dir string) (doubt bool, err error) {
	if err := Unused(fs, dir); err != nil {
		return false, err
	}
	if err := fs.Rename(temp, dir); err != nil {
		return false, err
	}
	if err := fs.SyncDir(fs.Dir(dir)); err != nil {
		// The next sync may succeed without making the name durable, so it must go.
		return true, errors.Join(err, fs.Rename(dir, temp))
	}
	return false, nil
}
