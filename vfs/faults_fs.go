package vfs

import "io"

// remember notes what a file is for, by its path.
func (f *Faults) remember(name string, cat Category) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cat != CatNone {
		f.mu.cats[name] = cat
	}
}

// forget ends what remember noted.
func (f *Faults) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.cats, name)
}

// rename carries the category over to a new name.
func (f *Faults) rename(oldName, newName string, keepOld bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cat, ok := f.mu.cats[oldName]; ok {
		f.mu.cats[newName] = cat
	}
	if !keepOld {
		delete(f.mu.cats, oldName)
	}
}

// Join joins path elements as the other file system does.
func (f *Faults) Abs(name string) (string, error) { return f.inner.Abs(name) }

func (f *Faults) Join(elem ...string) string { return f.inner.Join(elem...) }

// Base returns the last element of a path.
func (f *Faults) Base(name string) string { return f.inner.Base(name) }

// Dir returns all but the last element of a path.
func (f *Faults) Dir(name string) string { return f.inner.Dir(name) }

// Create makes a new file.
func (f *Faults) Create(name string, cat Category) (File, error) {
	return f.open(OpCreate, name, cat, f.inner.Create)
}

// Open opens a file for reading.
func (f *Faults) Open(name string, cat Category) (File, error) {
	return f.open(OpOpen, name, cat, f.inner.Open)
}

// OpenReadWrite opens a file for reading and writing.
func (f *Faults) OpenReadWrite(name string, cat Category) (File, error) {
	return f.open(OpOpenReadWrite, name, cat, f.inner.OpenReadWrite)
}

func (f *Faults) open(op OpKind, name string, cat Category, inner func(string, Category) (File, error)) (File, error) {
	rule := f.call(Op{Kind: op, Category: cat, Path: name})
	if rule != nil && !rule.Done {
		return nil, rule.fail(op, name)
	}
	file, err := inner(name, cat)
	if err == nil {
		f.remember(name, cat)
	}
	if rule != nil {
		if err == nil {
			_ = file.Close() // as the caller gets no handle to close
		}
		return nil, rule.fail(op, name)
	}
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, faults: f, cat: cat}, nil
}

// Rename gives a file a new name.
func (f *Faults) Rename(oldName, newName string) error {
	return f.run(Op{Kind: OpRename, Path: oldName, NewPath: newName}, func() error {
		err := f.inner.Rename(oldName, newName)
		if err == nil {
			f.rename(oldName, newName, false)
		}
		return err
	})
}

// Link makes newName a second name of oldName.
func (f *Faults) Link(oldName, newName string) error {
	return f.run(Op{Kind: OpLink, Path: oldName, NewPath: newName}, func() error {
		err := f.inner.Link(oldName, newName)
		if err == nil {
			f.rename(oldName, newName, true)
		}
		return err
	})
}

// Remove deletes a file or an empty directory.
func (f *Faults) Remove(name string) error {
	return f.run(Op{Kind: OpRemove, Path: name}, func() error {
		err := f.inner.Remove(name)
		if err == nil {
			f.forget(name)
		}
		return err
	})
}

// List returns the names in a directory.
func (f *Faults) List(dir string) (names []string, err error) {
	err = f.run(Op{Kind: OpList, Path: dir}, func() (err error) {
		names, err = f.inner.List(dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// MkdirAll makes a directory and its missing parents.
func (f *Faults) MkdirAll(dir string) error {
	return f.run(Op{Kind: OpMkdir, Path: dir}, func() error { return f.inner.MkdirAll(dir) })
}

// SyncDir makes the entries of a directory durable.
func (f *Faults) SyncDir(dir string) error {
	op := Op{Kind: OpSyncDir, Path: dir}
	rule := f.call(op)
	if rule == nil {
		return f.inner.SyncDir(dir)
	}
	fate := rule.fate()
	if mem, ok := f.inner.(*Mem); ok {
		mem.failSyncDir(dir, fate, rule.generator())
	} else if fate == SyncKept {
		_ = f.inner.SyncDir(dir) // the rule's error stands for both
	}
	return rule.fail(OpSyncDir, dir)
}

// Stat describes a file or directory.
func (f *Faults) Stat(name string) (info Info, err error) {
	err = f.run(Op{Kind: OpStat, Path: name}, func() (err error) {
		info, err = f.inner.Stat(name)
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

// Lock takes the lock of a file.
func (f *Faults) Lock(name string) (io.Closer, error) { return f.lock(OpLock, name, f.inner.Lock) }

// LockShared takes the shared lock of a file.
func (f *Faults) LockShared(name string) (io.Closer, error) {
	return f.lock(OpLockShared, name, f.inner.LockShared)
}

// LockDir takes the lock of a directory.
func (f *Faults) LockDir(dir string) (io.Closer, error) {
	return f.lock(OpLockDir, dir, f.inner.LockDir)
}

func (f *Faults) lock(op OpKind, name string, take func(string) (io.Closer, error)) (held io.Closer, err error) {
	rule := f.call(Op{Kind: op, Category: CatLock, Path: name})
	if rule != nil && !rule.Done {
		return nil, rule.fail(op, name)
	}
	held, err = take(name)
	if rule != nil {
		if err == nil {
			_ = held.Close() // as the caller gets nothing to close
		}
		return nil, rule.fail(op, name)
	}
	return held, err
}

// Free returns the free space.
func (f *Faults) Free(dir string) (free uint64, err error) {
	err = f.run(Op{Kind: OpFree, Path: dir}, func() (err error) {
		free, err = f.inner.Free(dir)
		return err
	})
	if err != nil {
		return 0, err
	}
	return free, nil
}
