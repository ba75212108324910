package stoat

import (
	"errors"
	"io"

	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs"
)

// A read-only database differs from another one in few places: how it takes the
// lock and the manifest, that it leaves everything where recovery found it, that
// no background work is started, and that nothing can be written. What is said
// of it here is that not a byte of the directory changes from Open to Close.

// lockToRead takes the lock of the directory together with whoever else reads,
// and without making its file. Where there is none, no writer has been yet who
// could keep us out; one that comes later is not kept out.
func (d *DB) lockToRead() error {
	lock, err := d.fs.LockShared(d.fs.Join(d.dir, lockName))
	switch {
	case err == nil:
		d.lock = lock
	case errors.Is(err, vfs.ErrNotExist), errors.Is(err, vfs.ErrReadOnly):
		d.lock, err = unlocked{}, nil
	}
	return err
}

// unlocked stands for the lock of a directory that needs none.
type unlocked struct{}

func (unlocked) Close() error { return nil }

var _ io.Closer = unlocked{}

// lockToWrite makes the directory, if there is none, and takes its lock.
func (d *DB) lockToWrite() (err error) {
	name := d.fs.Join(d.dir, lockName)
	d.lock, err = d.fs.Lock(name)
	if errors.Is(err, vfs.ErrNotExist) {
		if err := d.fs.MkdirAll(d.dir); err != nil {
			return err
		}
		d.lock, err = d.fs.Lock(name)
	}
	return err
}

// readManifest loads the manifest of a database that is there.
func (d *DB) readManifest() (state manifest.State, err error) {
	d.manifest, state, err = manifest.Load(d.fs, d.dir, true, nil)
	return state, err
}
