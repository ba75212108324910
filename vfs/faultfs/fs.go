package faultfs

import (
	"io"
	"math/rand/v2"

	"github.com/stoatdb/stoat/vfs"
)

// remember records the category of a path.
func (f *FS) remember(name string, cat vfs.Category) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cat != vfs.CatNone {
		f.mu.cats[name] = cat
	}
}

// forget deletes the category of a path.
func (f *FS) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.cats, name)
}

// rename copies the category of a path to a new name.
func (f *FS) rename(oldName, newName string, keepOld bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cat, ok := f.mu.cats[oldName]; ok {
		f.mu.cats[newName] = cat
	}
	if !keepOld {
		delete(f.mu.cats, oldName)
	}
}

// Abs returns a path that does not depend on the working directory.
func (f *FS) Abs(name string) (string, error) { return f.inner.Abs(name) }

// Join joins path elements.
func (f *FS) Join(elem ...string) string { return f.inner.Join(elem...) }

// Base returns the last element of a path.
func (f *FS) Base(name string) string { return f.inner.Base(name) }

// Dir returns all but the last element of a path.
func (f *FS) Dir(name string) string { return f.inner.Dir(name) }

// Create creates a file.
func (f *FS) Create(name string, cat vfs.Category) (vfs.File, error) {
	return f.open(vfs.OpCreate, name, cat, f.inner.Create)
}

// Open opens a file for reading.
func (f *FS) Open(name string, cat vfs.Category) (vfs.File, error) {
	return f.open(vfs.OpOpen, name, cat, f.inner.Open)
}

// OpenReadWrite opens a file for reading and writing.
func (f *FS) OpenReadWrite(name string, cat vfs.Category) (vfs.File, error) {
	return f.open(vfs.OpOpenReadWrite, name, cat, f.inner.OpenReadWrite)
}

func (f *FS) open(op vfs.OpKind, name string, cat vfs.Category, inner func(string, vfs.Category) (vfs.File, error)) (vfs.File, error) {
	rule := f.call(vfs.Op{Kind: op, Category: cat, Path: name})
	if rule != nil && !rule.Done {
		return nil, rule.fail(op, name)
	}
	opened, err := inner(name, cat)
	if err == nil {
		f.remember(name, cat)
	}
	if rule != nil {
		if err == nil {
			_ = opened.Close() // the caller gets no handle to close
		}
		return nil, rule.fail(op, name)
	}
	if err != nil {
		return nil, err
	}
	return &file{File: opened, faults: f, cat: cat}, nil
}

// Rename renames a file or directory.
func (f *FS) Rename(oldName, newName string) error {
	return f.run(vfs.Op{Kind: vfs.OpRename, Path: oldName, NewPath: newName}, func() error {
		err := f.inner.Rename(oldName, newName)
		if err == nil {
			f.rename(oldName, newName, false)
		}
		return err
	})
}

// Link makes newName a second name of oldName.
func (f *FS) Link(oldName, newName string) error {
	return f.run(vfs.Op{Kind: vfs.OpLink, Path: oldName, NewPath: newName}, func() error {
		err := f.inner.Link(oldName, newName)
		if err == nil {
			f.rename(oldName, newName, true)
		}
		return err
	})
}

// Remove removes a file or an empty directory.
func (f *FS) Remove(name string) error {
	return f.run(vfs.Op{Kind: vfs.OpRemove, Path: name}, func() error {
		err := f.inner.Remove(name)
		if err == nil {
			f.forget(name)
		}
		return err
	})
}

// List returns the names in a directory.
func (f *FS) List(dir string) (names []string, err error) {
	err = f.run(vfs.Op{Kind: vfs.OpList, Path: dir}, func() (err error) {
		names, err = f.inner.List(dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// A dirMaker is a file system whose MkdirAll can use another SyncDir.
type dirMaker interface {
	MkdirAllSyncing(dir string, sync func(dir string) error) error
}

// MkdirAll creates a directory and its missing parents. Over vfs/memfs, each of its syncs
// is a call of SyncDir too, which a rule may make fail.
func (f *FS) MkdirAll(dir string) error {
	return f.run(vfs.Op{Kind: vfs.OpMkdir, Path: dir}, func() error {
		if disk, ok := f.inner.(dirMaker); ok {
			return disk.MkdirAllSyncing(dir, f.SyncDir)
		}
		return f.inner.MkdirAll(dir)
	})
}

// A dirSyncFailer is a file system that can simulate a failed SyncDir.
type dirSyncFailer interface {
	FailSyncDir(dir string, fate vfs.SyncFate, rng *rand.Rand)
}

// SyncDir makes the names in a directory durable.
func (f *FS) SyncDir(dir string) error {
	op := vfs.Op{Kind: vfs.OpSyncDir, Path: dir}
	rule := f.call(op)
	if rule == nil {
		return f.inner.SyncDir(dir)
	}
	fate := rule.fate()
	if disk, ok := f.inner.(dirSyncFailer); ok {
		disk.FailSyncDir(dir, fate, rule.generator())
	} else if fate == vfs.SyncKept {
		_ = f.inner.SyncDir(dir) // the call returns the error of the rule
	}
	return rule.fail(vfs.OpSyncDir, dir)
}

// Stat describes a file or directory.
func (f *FS) Stat(name string) (info vfs.Info, err error) {
	err = f.run(vfs.Op{Kind: vfs.OpStat, Path: name}, func() (err error) {
		info, err = f.inner.Stat(name)
		return err
	})
	if err != nil {
		return vfs.Info{}, err
	}
	return info, nil
}

// Lock takes the exclusive locks of a file and its directory.
func (f *FS) Lock(name string) (io.Closer, error) { return f.lock(vfs.OpLock, name, f.inner.Lock) }

// LockShared takes the shared locks of a file and its directory.
func (f *FS) LockShared(name string) (io.Closer, error) {
	return f.lock(vfs.OpLockShared, name, f.inner.LockShared)
}

// LockDir takes the exclusive lock of a directory.
func (f *FS) LockDir(dir string) (io.Closer, error) {
	return f.lock(vfs.OpLockDir, dir, f.inner.LockDir)
}

func (f *FS) lock(op vfs.OpKind, name string, take func(string) (io.Closer, error)) (held io.Closer, err error) {
	rule := f.call(vfs.Op{Kind: op, Category: vfs.CatLock, Path: name})
	if rule != nil && !rule.Done {
		return nil, rule.fail(op, name)
	}
	held, err = take(name)
	if rule != nil {
		if err == nil {
			_ = held.Close() // the caller gets nothing to close
		}
		return nil, rule.fail(op, name)
	}
	return held, err
}

// Free returns the free space in bytes.
func (f *FS) Free(dir string) (free uint64, err error) {
	err = f.run(vfs.Op{Kind: vfs.OpFree, Path: dir}, func() (err error) {
		free, err = f.inner.Free(dir)
		return err
	})
	if err != nil {
		return 0, err
	}
	return free, nil
}
