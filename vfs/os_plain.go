//go:build !linux && !darwin && !freebsd

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
)

// The methods of osFS in this file use package os and a few functions that each system
// implements: openFile, openLock, lockFile, unlockFile, syncFile, classOf and isNotEmpty.

func (osFS) Create(name string, _ Category) (File, error) {
	f, err := openFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, WrapError(OpCreate, name, causeOf(err))
	}
	return &osFile{file: f, name: name}, nil
}

func (osFS) Open(name string, _ Category) (File, error) {
	return openExisting(OpOpen, name, os.O_RDONLY)
}

func (osFS) OpenReadWrite(name string, _ Category) (File, error) {
	return openExisting(OpOpenReadWrite, name, os.O_RDWR)
}

// openExisting opens a regular file. It fails for everything else.
func openExisting(op OpKind, name string, flags int) (File, error) {
	info, err := os.Lstat(name)
	if err == nil {
		err = requireRegular(info)
	}
	if err != nil {
		return nil, WrapError(op, name, causeOf(err))
	}
	f, err := openFile(name, flags)
	if err != nil {
		return nil, WrapError(op, name, causeOf(err))
	}
	return &osFile{file: f, name: name}, nil
}

func requireRegular(info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return errIsDir
	case info.Mode()&fs.ModeSymlink != 0:
		return errSymlink
	}
	return errNotRegular
}

func (osFS) Rename(oldName, newName string) error {
	return WrapError(OpRename, oldName, causeOf(os.Rename(oldName, newName)))
}

func (osFS) Link(oldName, newName string) error {
	return WrapError(OpLink, newName, causeOf(os.Link(oldName, newName)))
}

func (osFS) Remove(name string) error {
	return WrapError(OpRemove, name, causeOf(os.Remove(name)))
}

// MkdirAll creates one level at a time and syncs its parent before the next level. It
// also syncs the parent of the deepest level that existed. It removes a new level whose sync
// fails: the next sync may succeed without making the name durable.
func (f osFS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	var missing []string
	at := dir
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			err = errNotDir
		}
		if err == nil {
			break
		}
		parent := filepath.Dir(at)
		if !errors.Is(err, fs.ErrNotExist) || parent == at {
			return WrapError(OpMkdir, at, causeOf(err))
		}
		missing = append(missing, at)
		at = parent
	}
	if err := f.SyncDir(filepath.Dir(at)); err != nil && !errors.Is(err, ErrPermission) {
		return err
	}
	for _, level := range slices.Backward(missing) {
		err := os.Mkdir(level, dirMode)
		made := err == nil
		if !made && !errors.Is(err, fs.ErrExist) {
			return WrapError(OpMkdir, level, causeOf(err))
		}
		if err := f.SyncDir(filepath.Dir(level)); err != nil {
			if made {
				_ = os.Remove(level) // fails if another process uses it
			}
			return err
		}
	}
	return nil
}

func (osFS) Stat(name string) (Info, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Info{}, WrapError(OpStat, name, causeOf(err))
	}
	return Info{Size: info.Size(), Allocated: info.Size(), Dir: info.IsDir()}, nil
}

// lock is a lock on an open file that no other lock shares.
type lock struct {
	file   *os.File
	closed atomic.Bool
}

func (osFS) Lock(name string) (io.Closer, error) {
	return lockOpened(OpLock, name, os.O_RDWR|os.O_CREATE)
}

func (osFS) LockShared(name string) (io.Closer, error) {
	return lockOpened(OpLockShared, name, os.O_RDONLY)
}

// LockDir checks the directory and takes no lock.
func (osFS) LockDir(dir string) (io.Closer, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errNotDir
	}
	if err != nil {
		return nil, WrapError(OpLockDir, dir, causeOf(err))
	}
	return new(noLock), nil
}

// A noLock is the Closer that LockDir returns.
type noLock struct{ closed atomic.Bool }

func (l *noLock) Close() error {
	if l.closed.Swap(true) {
		return ErrClosed
	}
	return nil
}

// lockOpened opens a file and locks it.
func lockOpened(op OpKind, name string, flags int) (io.Closer, error) {
	f, err := openLock(name, flags)
	if err != nil {
		return nil, WrapError(op, name, causeOf(err))
	}
	if err := lockFile(f, op == OpLockShared); err != nil {
		_ = f.Close() // nothing was written through it
		return nil, WrapError(op, name, err)
	}
	return &lock{file: f}, nil
}

func (l *lock) Close() error {
	if l.closed.Swap(true) {
		return ErrClosed
	}
	return errors.Join(unlockFile(l.file), l.file.Close())
}

// classify maps a cause to the error of this package that callers branch on, or nil.
func classify(err error) error {
	switch {
	case errors.Is(err, errSymlink), errors.Is(err, errNotRegular):
		return ErrPermission
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotExist
	case errors.Is(err, fs.ErrExist) && !isNotEmpty(err):
		return ErrExist
	case errors.Is(err, fs.ErrPermission):
		return ErrPermission
	case errors.Is(err, fs.ErrClosed):
		return ErrClosed
	case errors.Is(err, io.ErrShortWrite):
		return ErrIO
	}
	return classOf(err)
}

// osFile is an open regular file.
type osFile struct {
	file *os.File
	name string
}

func (f *osFile) Name() string { return f.name }

func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.file.ReadAt(p, off)
	return n, WrapError(OpRead, f.name, causeOf(err))
}

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.file.WriteAt(p, off)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, WrapError(OpWrite, f.name, causeOf(err))
}

func (f *osFile) Size() (int64, error) {
	info, err := f.file.Stat()
	if err != nil {
		return 0, WrapError(OpSize, f.name, causeOf(err))
	}
	return info.Size(), nil
}

func (f *osFile) Truncate(size int64) error {
	return WrapError(OpTruncate, f.name, causeOf(f.file.Truncate(size)))
}

// Preallocate only grows the file.
func (f *osFile) Preallocate(off, n int64) (reserved bool, err error) {
	if off < 0 || n < 0 || off > math.MaxInt64-n {
		return false, WrapError(OpPreallocate, f.name, errInvalid)
	}
	size, err := f.Size()
	if err != nil || size >= off+n {
		return false, err
	}
	return false, WrapError(OpPreallocate, f.name, causeOf(f.file.Truncate(off+n)))
}

// WillWrite does nothing: package os cannot map a file.
func (f *osFile) WillWrite(int64, int64) {}

// SyncRange does nothing: package os has no call that starts writes without waiting.
func (f *osFile) SyncRange(int64, int64) error { return nil }

// WaitRange does nothing because SyncRange starts nothing.
func (f *osFile) WaitRange(int64, int64) error { return nil }

func (f *osFile) SyncData() error { return WrapError(OpSyncData, f.name, causeOf(syncFile(f.file))) }
func (f *osFile) Sync() error     { return WrapError(OpSync, f.name, causeOf(syncFile(f.file))) }

func (f *osFile) Close() error { return WrapError(OpClose, f.name, causeOf(f.file.Close())) }

// osMapping is a copy of the file in memory. On Windows, a mapped file could not be
// removed.
type osMapping struct {
	name   string
	data   []byte
	closed atomic.Bool
}

func (f *osFile) Map(n int64) (Mapping, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > math.MaxInt {
		return nil, WrapError(OpMap, f.name, errInvalid)
	}
	if n > size {
		return nil, WrapError(OpMap, f.name, errBeyondEnd)
	}
	data, err := Alloc(int(n))
	if err == nil {
		_, err = f.file.ReadAt(data, 0)
	}
	if err != nil && err != io.EOF {
		return nil, WrapError(OpMap, f.name, errors.Join(causeOf(err), Free(data)))
	}
	return &osMapping{name: f.name, data: data}, nil
}

func (m *osMapping) Bytes() []byte { return m.data }

func (m *osMapping) check(op OpKind, off, n int64) error {
	switch {
	case m.closed.Load():
		return WrapError(op, m.name, ErrClosed)
	case off < 0 || n < 0 || n > int64(len(m.data))-off:
		return WrapError(op, m.name, errBeyondEnd)
	}
	return nil
}

func (m *osMapping) WillNeed(off, n int64) error { return m.check(OpWillNeed, off, n) }
func (m *osMapping) KeepUsed() error             { return m.check(OpKeepUsed, 0, 0) }
func (m *osMapping) DontNeed(off, n int64) error { return m.check(OpDontNeed, off, n) }

func (m *osMapping) Populate(off, n int64) (int64, error) { return n, m.check(OpPopulate, off, n) }

func (m *osMapping) Close() error {
	if m.closed.Swap(true) {
		return WrapError(OpUnmap, m.name, ErrClosed)
	}
	return WrapError(OpUnmap, m.name, Free(m.data))
}
