package stoat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// lockName is the name of the lock file in the directory of a database.
const lockName = "LOCK"

// Open opens the database in the directory dir. It creates the directory and the
// database if they do not exist, unless Options.MustExist is set. opts may be nil.
// The caller must Close the database. Open resolves a relative dir once: the working
// directory of the process may change later.
//
// Open returns ErrLocked while another open holds the database. It returns
// ErrCorrupt when a file differs from what was written. It returns ErrVersion when
// the database has a format or a feature of a later version of stoat. With
// Options.MustExist or Options.ReadOnly and without a database, it returns
// fs.ErrNotExist of package io/fs.
func Open(dir string, opts *Options) (*DB, error) { return openWith(dir, opts, work.Executor{}) }

// openWith is Open with an executor of background jobs.
func openWith(dir string, opts *Options, exec work.Executor) (*DB, error) {
	d := &DB{opts: opts.withDefaults(), exec: &exec}
	if err := d.openIn(dir); err != nil {
		return nil, err
	}
	return d, nil
}

// openIn checks the options, and opens the database in dir.
func (d *DB) openIn(dir string) (err error) {
	if err := d.opts.validate(); err != nil {
		return err
	}
	if d.dir, err = absolute(d.opts.FS, dir); err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	d.opts.FS = vfs.Strict(d.opts.FS, d.dir)
	if err := d.open(); err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	return nil
}

// absolute returns the absolute path of a directory that the caller named. It
// refuses an empty name, which would mean the working directory: the program
// probably forgot to set its path.
func absolute(fs vfs.FS, dir string) (string, error) {
	if dir == "" {
		return "", errNoName
	}
	return fs.Abs(dir)
}

// open makes the database ready for use:
//
//  1. It creates the directory and takes its lock.
//  2. It loads the keys of an encrypted database, or makes the first ones. Then it loads
//     the manifest, or writes the first one.
//  3. It assembles the engine.
//  4. It deletes the files that unfinished jobs left.
//  5. It replays the log into memtables.
//  6. It starts a new log if the end of the old log may not be durable. The new log
//     begins with a copy of that end. Otherwise the first commit starts the new log.
//  7. It stores settings that the options change.
//  8. It starts the workers.
//
// So reading a database changes nothing on the disk except the time in the manifest.
// When the database is idle, jobs do what the last opening left to do.
//
// On a full disk, open leaves step 6 to the first commit too. The caller can then
// read, and write as soon as the disk has space. A read-only open creates nothing
// in steps 1 and 2, leaves out 4 and 6, and starts only the governor. In steps 1, 2 and 7, it creates and changes
// nothing. A follower takes no lock. With MustExist, step 1 first looks for a manifest, and step 2 writes none.
func (d *DB) open() (err error) {
	takeLock, load := d.lockToWrite, d.loadManifest
	switch {
	case d.opts.follows:
		takeLock, load = lockNothing(d), followManifest(d)
	case d.opts.ReadOnly:
		takeLock, load = d.lockToRead, d.readManifest
	}
	if err := takeLock(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			d.abandon()
		}
	}()
	if err = d.openKeys(); err != nil {
		return err
	}
	state, err := load()
	if err != nil {
		return err
	}
	changed, err := d.chooseSettings(&state)
	if err != nil {
		return err
	}
	d.assemble(state)
	if !d.opts.ReadOnly {
		if err = d.store.RemoveOrphans(); err != nil {
			return err
		}
	}
	if err = recoverLog(d, &state); err != nil {
		return err
	}
	d.throttle.NoteDebt(d.jobs.Debt(state.Version))
	if !d.opts.ReadOnly {
		d.spaces.Opened(d.commits.LastSeq())
		d.space.Edited(d.jobs.Need(state.Version, d.store.Horizon()))
		if err = d.commits.Prove(); err != nil {
			return err
		}
	}
	if err = d.storeSettings(state.Keyspaces[0], changed); err != nil {
		return err
	}
	d.startWorkers()
	return nil
}

// abandon releases what a failed open has acquired. It drops its own errors: the
// error that stopped Open is the one to report.
func (d *DB) abandon() {
	if d.store != nil {
		d.group.End()
		if l := d.commits.Log(); l != nil {
			_ = l.Close()
		}
		if d.follower != nil {
			d.follower.Close()
		}
		defer d.store.Abandon()
	}
	if d.manifest != nil {
		_ = d.manifest.Close()
	}
	_ = d.lock.Close()
}

// loadManifest loads the manifest, or writes the first one of a new database.
func (d *DB) loadManifest() (state manifest.State, err error) {
	fs := d.opts.FS
	d.manifest, state, err = manifest.Load(fs, d.dir, false, rand.Uint64, sealer(d.keys))
	if !errors.Is(err, vfs.ErrNotExist) || d.opts.MustExist {
		return state, err
	}
	// The process that created the directory may have died before it was durable.
	if err := fs.MkdirAll(d.dir); err != nil {
		return state, err
	}
	state = manifest.State{FormatVersion: manifest.FormatVersion, HashSeed: rand.Uint64(),
		Keyspaces: []*manifest.Keyspace{d.opts.firstKeyspace()}}
	binary.LittleEndian.PutUint64(state.ID[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(state.ID[8:], rand.Uint64())
	if d.keys != nil {
		state.RequiredFeatures = []string{manifest.FeatureEncryption}
	}
	if d.manifest, err = manifest.Create(fs, d.dir, state, rand.Uint64, sealer(d.keys)); err != nil {
		return state, err
	}
	return d.manifest.State(), nil
}

// readManifest loads the manifest of an existing database.
func (d *DB) readManifest() (state manifest.State, err error) {
	d.manifest, state, err = manifest.Load(d.opts.FS, d.dir, true, nil, sealer(d.keys))
	return state, err
}

// lockToWrite takes the exclusive lock of the directory. It creates the directory
// if there is none. With MustExist and without a database it creates nothing, not even
// the lock file.
func (d *DB) lockToWrite() (err error) {
	fs := d.opts.FS
	if d.opts.MustExist {
		if err := manifest.Exists(fs, d.dir); err != nil {
			return err
		}
	}
	name := fs.Join(d.dir, lockName)
	d.lock, err = fs.Lock(name)
	if errors.Is(err, vfs.ErrNotExist) {
		if err := fs.MkdirAll(d.dir); err != nil {
			return err
		}
		d.lock, err = fs.Lock(name)
	}
	return err
}

// lockToRead takes the shared lock of the directory, without creating the lock
// file. Without that file no writer excludes readers yet. A writer that comes later
// is not excluded.
func (d *DB) lockToRead() error {
	lock, err := d.opts.FS.LockShared(d.opts.FS.Join(d.dir, lockName))
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
