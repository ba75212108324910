package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// The modes of new files and directories, on systems that have modes. Only the owner
// may access them.
const (
	fileMode = 0o600
	dirMode  = 0o700
)

// osFS is the file system of the operating system. This file has what is the same
// everywhere. It uses syncDir and freeBytes, which each system implements.
type osFS struct{}

// OS returns the file system of the operating system.
func OS() FS { return osFS{} }

func (osFS) Abs(name string) (string, error) { return filepath.Abs(name) }

func (osFS) Join(elem ...string) string { return filepath.Join(elem...) }
func (osFS) Base(name string) string    { return filepath.Base(name) }
func (osFS) Dir(name string) string     { return filepath.Dir(name) }

func (osFS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, WrapError(OpList, dir, causeOf(err))
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close() // opened for reading
	if err != nil {
		return nil, WrapError(OpList, dir, causeOf(err))
	}
	slices.Sort(names)
	return names, nil
}

func (osFS) SyncDir(dir string) error { return WrapError(OpSyncDir, dir, syncDir(dir)) }

func (osFS) Free(dir string) (uint64, error) {
	n, err := freeBytes(dir)
	return n, WrapError(OpFree, dir, err)
}

// causeOf removes the operation and the path from an error of package os. WrapError
// adds them in the form of this package.
func causeOf(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	var s *os.SyscallError
	if errors.As(err, &s) {
		return s.Err
	}
	return err
}
