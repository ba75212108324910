package engine

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"

	"github.com/stoatdb/stoat/internal/backup"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/newdir"
	"github.com/stoatdb/stoat/vfs"
)

// Open makes a database ready for use:
//
//  1. It creates the directory and takes its lock.
//  2. It loads the keys of an encrypted database, or makes the first ones. Then it loads
//     the manifest, or writes the first one.
//  3. It assembles the engine.
//  4. It deletes the files that unfinished jobs left.
//  5. It replays the log into memtables.
//  6. It starts a new log if the end of the old log may not be durable. The new log
//     begins with a copy of that end. Otherwise the first commit starts the new log.
//  7. It stores settings that the options change. Nothing before this goes by new settings.
//  8. It flushes the memtables if many short runs have left their logs.
//  9. It starts the workers.
//
// So reading a database after Close changes nothing on the disk except the time in the
// manifest, unless the options differ from what is stored. When the database is idle, jobs
// do what the last opening left to do.
//
// On a full disk, Open leaves step 6 to the first commit too. The caller can then
// read, and write as soon as the disk has space. With MustExist, step 1 first looks for
// a manifest, and step 2 writes none.
//
// A read-only Open looks for a manifest before step 2, and creates and changes nothing in
// steps 1 and 2. It leaves out steps 4 and 6 to 8, and starts only the governor and the
// sweeper. A follower also takes no lock. In step 5 it reads what the writer has written,
// and step 9 starts the goroutine that goes on with that.
func (e *Engine) Open(o Options) (err error) {
	e.o, e.raw = o, o.FS
	e.exec = &e.o.Executor
	takeLock, load := e.lockToWrite, e.loadManifest
	switch {
	case o.Follows:
		takeLock, load = e.lockNothing, e.followManifest
	case o.ReadOnly:
		takeLock, load = e.lockToRead, e.readManifest
	}
	if err := takeLock(); err != nil {
		return err
	}
	opened := false // also not after a panic of the clock or of the provider of keys
	defer func() {
		if !opened {
			e.abandon()
		}
	}()
	if e.o.FS, e.Keys, err = openKeys(o.keyOptions(), o.MemoryBudget, o.checkSettings); err != nil {
		return err
	}
	state, err := load()
	if err != nil {
		return err
	}
	changed, err := e.chooseSettings(&state)
	if err != nil {
		return err
	}
	e.assemble(state)
	if !o.ReadOnly {
		if err = e.Store.RemoveOrphans(); err != nil {
			return err
		}
		e.removeJournal()
	}
	if err = e.recoverLog(&state); err != nil {
		return err
	}
	e.Throttle.NoteDebt(e.Jobs.Debt(state.Version))
	if !o.ReadOnly {
		e.Spaces.Opened(e.Commits.LastSeq())
		e.Space.Edited(e.Jobs.Need(state.Version, e.Store.Horizon()))
		if err = e.Commits.Prove(); err != nil {
			return err
		}
		if err = e.storeSettings(state.Keyspaces[0], changed); err != nil {
			return err
		}
		e.Jobs.FirstFlush()
	}
	e.startWorkers()
	opened = true
	return nil
}

// abandon releases what a failed Open has acquired. It drops its own errors: the
// error that stopped Open is the one to report.
func (e *Engine) abandon() {
	if e.Keys != nil {
		e.Keys.End()
	}
	if e.Store != nil {
		e.Group.End()
		if l := e.Commits.Log(); l != nil {
			_ = l.Close()
		}
		if e.Follower != nil {
			e.Follower.Close()
		}
		defer e.Store.Abandon()
	}
	if e.Manifest != nil {
		_ = e.Manifest.Close()
	}
	_ = e.lock.Close()
}

// removeJournal removes the journal of a restore that was killed when the database was
// complete. It may hold keys of the user. If it stays, the next Open tries again.
func (e *Engine) removeJournal() {
	name := e.raw.Join(e.o.Dir, backup.JournalName)
	if _, err := e.raw.Stat(name); err == nil {
		_ = e.raw.Remove(name)
	}
}

// loadManifest loads the manifest, or writes the first one of a new database.
func (e *Engine) loadManifest() (state manifest.State, err error) {
	fs, dir := e.o.FS, e.o.Dir
	e.Manifest, state, err = manifest.Load(fs, dir, false, rand.Uint64, sealer(e.Keys))
	if !errors.Is(err, vfs.ErrNotExist) || e.o.MustExist {
		return state, err
	}
	state = manifest.State{FormatVersion: manifest.FormatVersion, HashSeed: rand.Uint64(),
		Keyspaces: []*manifest.Keyspace{e.o.Settings.FirstKeyspace()}}
	binary.LittleEndian.PutUint64(state.ID[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(state.ID[8:], rand.Uint64())
	if e.Keys != nil {
		state.RequiredFeatures = []string{manifest.FeatureEncryption}
	}
	if e.Manifest, err = manifest.Create(fs, dir, state, rand.Uint64, sealer(e.Keys)); err != nil {
		return state, err
	}
	return e.Manifest.State(), nil
}

// readManifest loads the manifest of an existing database.
func (e *Engine) readManifest() (state manifest.State, err error) {
	e.Manifest, state, err = manifest.Load(e.o.FS, e.o.Dir, true, nil, sealer(e.Keys))
	return state, err
}

// lockToWrite takes the exclusive lock of the directory. It creates the directory
// if there is none. With MustExist and without a database it creates nothing, not even
// the lock file.
func (e *Engine) lockToWrite() (err error) {
	fs, dir := e.o.FS, e.o.Dir
	if e.o.MustExist {
		if err := manifest.CheckExists(fs, dir); err != nil {
			return err
		}
	}
	e.lock, err = newdir.LockDatabase(fs, dir)
	return err
}

// lockToRead takes the shared lock of the directory, without creating the lock
// file. Without that file no writer excludes readers yet. A writer that comes later
// is not excluded.
func (e *Engine) lockToRead() error {
	lock, err := e.o.FS.LockShared(e.o.FS.Join(e.o.Dir, newdir.LockName))
	switch {
	case err == nil:
		e.lock = lock
	case errors.Is(err, vfs.ErrNotExist), errors.Is(err, vfs.ErrReadOnly):
		e.lock, err = io.NopCloser(nil), nil // no lock file: there is nothing to release
	}
	return err
}

// Close refuses new transactions, waits for commits under way, and makes everything
// committed durable. The caller calls it once.
func (e *Engine) Close() error {
	e.Group.Refuse()
	e.Store.Closing()
	if e.Keys != nil {
		e.Keys.End()
	}
	e.Commits.Drain()
	e.Group.End()
	if e.Follower != nil {
		e.Follower.Close()
	}
	err := e.Commits.Failed()
	if !e.o.ReadOnly {
		err = e.persist(err)
		e.Store.Sweep() // the last deletion of obsolete files
	}
	if failed := e.Manifest.Close(); failed != nil && err == nil {
		if err = failed; !e.o.ReadOnly {
			err = base.Failed(failed)
		}
	}
	if failed := e.lock.Close(); err == nil {
		err = failed
	}
	e.Store.Shut()
	return err
}

// persist leaves the disk so that the next Open has little to do. failed is the
// error that ended the commits before, or nil. It takes precedence over an error of
// persist itself.
func (e *Engine) persist(failed error) error {
	if failed == nil {
		e.Jobs.FinalFlush()
		failed = e.Commits.Failed()
	}
	if err := e.Commits.CloseLog(failed == nil); failed == nil {
		failed = err
	}
	return failed
}
