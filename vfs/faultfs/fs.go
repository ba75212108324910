package faultfs

import (
	"io"
	"math/rand/v2"
	"sync"

	"github.com/stoatdb/stoat/vfs"
)

// FS passes calls to another file system, unless its rules make them fail.
// Its methods may be called from several goroutines at the same time.
type FS struct {
	inner vfs.FS
	mu    struct {
		sync.Mutex
		calls    int64
		rules    []*Fault
		observer func(vfs.Op)
		cats     map[string]vfs.Category // by path
		last     vfs.Op                  // the last failed call
		failed   int64
	}
}

// New returns an FS without rules that passes calls to inner.
func New(inner vfs.FS) *FS {
	f := &FS{inner: inner}
	f.mu.cats = map[string]vfs.Category{}
	return f
}

// Clear removes all rules.
func (f *FS) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rules = nil
}

// Calls returns the number of calls, including failed ones. All methods of vfs.FS,
// vfs.File and vfs.Mapping count except Abs, Join, Base, Dir, Name and Bytes.
func (f *FS) Calls() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.calls
}

// Failed returns the number of calls that rules made fail, and the last of them.
func (f *FS) Failed() (int64, vfs.Op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.failed, f.mu.last
}

// Observe makes fn run before each call, in the goroutine of the call and outside all
// locks. A nil fn ends this.
func (f *FS) Observe(fn func(vfs.Op)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.observer = fn
}

// announce sets the category of op, if it has none, to that of its path. It then calls
// the observer.
func (f *FS) announce(op vfs.Op) vfs.Op {
	f.mu.Lock()
	if op.Category == vfs.CatNone {
		op.Category = f.mu.cats[op.Path]
	}
	observer := f.mu.observer
	f.mu.Unlock()
	if observer != nil {
		observer(op)
	}
	return op
}

// call counts a call and returns the rule that makes it fail, or nil.
func (f *FS) call(op vfs.Op) *Rule {
	op = f.announce(op)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.calls++
	var failing *Rule
	for _, t := range f.mu.rules {
		if !t.rule.matches(op) {
			continue
		}
		t.matched++
		due := t.matched == t.rule.Nth || t.rule.Forever && t.matched > t.rule.Nth
		if due && failing == nil {
			t.fired++
			failing = &t.rule
		}
	}
	if failing != nil {
		f.mu.failed++
		f.mu.last = op
	}
	return failing
}

// run makes a call that returns only an error.
func (f *FS) run(op vfs.Op, inner func() error) error {
	rule := f.call(op)
	if rule == nil {
		return inner()
	}
	if rule.Done {
		_ = inner() // the call returns the error of the rule
	}
	return rule.fail(op.Kind, op.Path)
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
