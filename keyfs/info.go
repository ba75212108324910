package keyfs

import (
	"io/fs"
	"time"
)

// An info describes a file or a directory. It implements fs.FileInfo and fs.DirEntry.
type info struct {
	name string
	size int64
	dir  bool
}

// Name implements fs.FileInfo.
func (i info) Name() string { return i.name }

// Size implements fs.FileInfo.
func (i info) Size() int64 { return i.size }

// Mode implements fs.FileInfo.
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// Type implements fs.DirEntry.
func (i info) Type() fs.FileMode { return i.Mode().Type() }

// ModTime implements fs.FileInfo. The time is not known.
func (i info) ModTime() time.Time { return time.Time{} }

// IsDir implements fs.FileInfo.
func (i info) IsDir() bool { return i.dir }

// Sys implements fs.FileInfo.
func (i info) Sys() any { return nil }

// Info implements fs.DirEntry.
func (i info) Info() (fs.FileInfo, error) { return i, nil }

// String formats the entry.
func (i info) String() string { return fs.FormatDirEntry(i) }
