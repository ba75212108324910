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
	"github.com/stoatdb/stoat/vfs/memfs"
)

// lockName is the name of the lock file in the directory of a database.
const lockName = "LOCK"

// NewMemFS returns a file system in memory, for databases that live as long as
// the process. Give it as Options.FS.
func NewMemFS() FS { return memfs.NewVolatile() }

// Open opens the database in the directory dir, and creates both if they do not
// exist. A relative dir is resolved once: the working directory of the process may
// change afterwards. opts may be nil. The caller must Close the database.
//
// Open returns ErrLocked when another open holds the database, ErrCorrupt when a
// file is not what was written, and ErrVersion when a later version of stoat wrote
// it. With Options.ReadOnly it returns fs.ErrNotExist of package io/fs when there is
// no database.
func Open(dir string, opts *Options) (*DB, error) { return openWith(dir, opts, work.Executor{}) }

// openWith is Open with an executor of background jobs.
func openWith(dir string, opts *Options, exec work.Executor) (*DB, error) {
	d := &DB{opts: opts.withDefaults(), exec: &exec}
	if err := d.opts.validate(); err != nil {
		return nil, err
	}
	var err error
	if d.dir, err = absolute(d.opts.FS, dir); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	d.opts.FS = vfs.Strict(d.opts.FS, d.dir)
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return d, nil
}

// absolute returns a directory that the caller has named, by a name that stays
// true. An empty name would mean the working directory, where a program that forgot
// to set its path wants no database.
func absolute(fs vfs.FS, dir string) (string, error) {
	if dir == "" {
		return "", errNoName
	}
	return fs.Abs(dir)
}

// open brings the database to life:
//
//  1. create the directory and take its lock;
//  2. load the manifest, or write the first one;
//  3. assemble the engine;
//  4. delete the files that unfinished jobs left;
//  5. replay the log into memtables;
//  6. if the end of the log is not known to be durable, start a new log, which
//     begins with a copy of that end. Otherwise the first commit does that: a
//     database that is only read changes nothing on the disk but the time that the
//     manifest keeps, until it has been idle and does what the last opening left;
//  7. start the workers.
//
// On a full disk 6 is left to the first commit as well, so that the database can be
// read, and written as soon as there is space. A read-only database creates nothing
// in 1 and 2, leaves out 4 and 6, and starts only the governor.
func (d *DB) open() (err error) {
	d.events.init()
	takeLock, load := d.lockToWrite, d.loadManifest
	if d.opts.ReadOnly {
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
	state, err := load()
	if err != nil {
		return err
	}
	d.assemble(state)
	if !d.opts.ReadOnly {
		if err = d.store.RemoveOrphans(); err != nil {
			return err
		}
	}
	if err = d.commits.Recover(&state); err != nil {
		return err
	}
	d.throttle.NoteDebt(d.jobs.Debt(state.Version))
	if !d.opts.ReadOnly {
		d.space.Edited(d.jobs.Need(state.Version, d.store.Horizon()))
		if err = d.commits.Prove(); err != nil {
			return err
		}
	}
	d.startWorkers()
	return nil
}

// abandon undoes what open has done so far in memory. The database was never handed
// out, so the error that stopped Open is the one to tell.
func (d *DB) abandon() {
	if d.store != nil {
		d.group.End()
		if l := d.commits.Log(); l != nil {
			_ = l.Close()
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
	d.manifest, state, err = manifest.Load(fs, d.dir, false, rand.Uint64)
	if !errors.Is(err, vfs.ErrNotExist) {
		return state, err
	}
	// The process that created the directory may have died before it was durable.
	if err := fs.MkdirAll(d.dir); err != nil {
		return state, err
	}
	state = manifest.State{FormatVersion: manifest.FormatVersion, HashSeed: rand.Uint64()}
	binary.LittleEndian.PutUint64(state.ID[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(state.ID[8:], rand.Uint64())
	if d.manifest, err = manifest.Create(fs, d.dir, state, rand.Uint64); err != nil {
		return state, err
	}
	return d.manifest.State(), nil
}

// readManifest loads the manifest of a database that exists.
func (d *DB) readManifest() (state manifest.State, err error) {
	d.manifest, state, err = manifest.Load(d.opts.FS, d.dir, true, nil)
	return state, err
}

// lockToWrite creates the directory, if there is none, and takes its lock.
func (d *DB) lockToWrite() (err error) {
	fs := d.opts.FS
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

// lockToRead takes the lock of the directory together with other readers, and does
// not create its file. Where there is none, no writer has been there yet that could
// keep readers out; one that comes later is not kept out.
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
