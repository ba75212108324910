// Package vfs is the only door of stoat to the operating system: files,
// directories, locks, mappings and memory outside the Go heap. No other
// package imports os, syscall or golang.org/x/sys.
//
// There are three implementations: the operating system (OS), a disk in
// memory that can crash (Mem), and a wrapper that fails on command (Faults).
//
// What the implementations promise is what POSIX file systems promise and no
// more:
//
//   - Bytes written with WriteAt are visible to every reader at once, and
//     survive a crash of the process. They survive a power cut only after
//     SyncData or Sync on a handle of the same file returned nil.
//   - A name that was created, renamed, linked or removed survives a power
//     cut only after SyncDir on its directory returned nil.
//   - SyncRange starts writing back, WaitRange waits until what was started has
//     ended, and neither makes anything durable. But when one of them fails,
//     what it covered may be lost as after a failed sync.
//   - A failed sync leaves the file in an unknown state: what it covered may
//     or may not be durable, and a second sync that succeeds says nothing.
//     Every handle that was open at the time reports the failure once.
//   - Two handles of one file may be synced at the same time. A failure is
//     kept per handle: of two syncs on one handle at the same time, one may
//     return nil although the data of both was lost. Who syncs concurrently
//     opens a handle for each.
//
// # The operating system
//
// Files are made with mode 0600 and directories with 0700, at any umask.
// Names that are symbolic links, FIFOs or devices are refused; a directory on
// the way may be a link. Calls that a signal interrupts are repeated, except
// syncs. Short reads and writes are completed or an error. Close may run at the same time as other calls on the file: they finish, or
// fail with ErrClosed.
//
// Linux has everything. macOS syncs with F_FULLFSYNC. FreeBSD and macOS
// populate mappings by reading. Windows maps by reading the file into memory.
// Space can be reserved on Linux and macOS, on file systems that have a call
// for it.
// Elsewhere files work and Lock is ErrUnsupported.
//
// Mappings read only the pages that are touched, without read-ahead: a reader
// of more asks for it with WillNeed or Populate, which also spare a processor
// that waits in a page fault.
//
// # Memory
//
// Alloc gives memory outside the Go heap, in huge pages where the system has
// them, and AllocatedBytes says how much is in use. In race builds it comes
// from the heap, so that the detector sees what goroutines do with it.
//
// # Testing
//
// Mem counts what is durable, calls a hook at each boundary, and makes the
// disks that a power cut could leave: see CrashKind for what is legal and
// why. A crash test drives the code on a Mem, clones it at boundaries, and
// opens the Crash of each clone. Faults makes chosen calls fail; with Nth from
// 1 up, a test can have every call of a run fail once:
//
//	for n := int64(1); ; n++ {
//		faults := faultfs.New(memfs.New())
//		rule := faults.Add(faultfs.Rule{Nth: n, Err: vfs.ErrNoSpace})
//		err := run(faults)
//		if rule.Fired() == 0 {
//			break // the run has fewer calls
//		}
//		…
//	}
package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// A Category says what a file is for. Fault rules, statistics and the cost
// of writing are told apart by it.
type Category uint8

// The categories.
const (
	CatNone Category = iota
	CatLog
	CatManifest
	CatTable
	CatValue
	CatLock
	CatTemp
)

// The errors that callers branch on. Implementations return errors for which
// errors.Is is true of these where they apply, wrapped with the operation and
// the path.
var (
	// ErrNotExist and ErrExist are also those of package io/fs.
	ErrNotExist = fmt.Errorf("vfs: %w", fs.ErrNotExist)
	ErrExist    = fmt.Errorf("vfs: %w", fs.ErrExist)
	ErrLocked   = errors.New("vfs: locked by another open, which has to be closed first")
	// ErrNoSpace is a full disk, quota, table of inodes or file size limit.
	ErrNoSpace = errors.New("vfs: no space left")
)

// FS is a file system. All methods may be called from many goroutines. Paths
// use the separator of the operating system; Join builds them.
type FS interface {
	// Create makes a new file for reading and writing with mode 0600 at any
	// umask. It fails with ErrExist when the name is taken and never follows
	// a symbolic link in the last element.
	Create(name string, cat Category) (File, error)

	// Open opens an existing file for reading only.
	Open(name string, cat Category) (File, error)

	// OpenReadWrite opens an existing file for reading and writing.
	OpenReadWrite(name string, cat Category) (File, error)

	// Rename replaces newName, if it exists, in one step.
	Rename(oldName, newName string) error

	// Link makes newName a second name of oldName.
	Link(oldName, newName string) error

	// Remove deletes a file or an empty directory.
	Remove(name string) error

	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)

	// MkdirAll makes a directory and its missing parents with mode 0700 at
	// any umask, and syncs the parents of what it made.
	MkdirAll(dir string) error

	// SyncDir makes the entries of a directory durable.
	SyncDir(dir string) error

	// Stat describes a file or directory.
	Stat(name string) (Info, error)

	// Lock takes the exclusive lock of the named file, making the file if
	// needed, and of its directory. It fails with ErrLocked while any other open
	// of either, in this process or another, holds its lock. The lock ends when
	// the returned Closer is closed or the process dies, in whatever way.
	//
	// That of the directory is for the case that somebody removes the file. Where
	// the system locks no directories, there is only the file's, which Windows
	// does not let anybody remove while it is held.
	Lock(name string) (io.Closer, error)

	// LockShared takes the shared lock of the named file, which must exist and
	// is not changed, and of its directory. Any number may hold it together, but not beside one who
	// holds the exclusive lock: either fails with ErrLocked while the other is
	// held.
	LockShared(name string) (io.Closer, error)

	// LockDir takes the exclusive lock of a directory, which must exist: that which
	// Lock takes beside the file's. It is the directory's under any name. Where the
	// system locks no directories, nothing is held.
	LockDir(dir string) (io.Closer, error)

	// Free returns how many bytes an unprivileged user can still write to
	// the file system of dir.
	Free(dir string) (uint64, error)

	// Abs returns a path that goes on to mean the same place when the working
	// directory of the process changes.
	Abs(name string) (string, error)

	// Join joins path elements with the separator of this file system.
	Join(elem ...string) string

	// Base returns the last element of a path.
	Base(name string) string

	// Dir returns all but the last element of a path.
	Dir(name string) string
}

// Info describes a file.
type Info struct {
	Size int64
	// Allocated is the bytes it takes on the device, or Size where unknown.
	Allocated int64
	Dir       bool
}

// File is an open file. ReadAt, WriteAt and the syncs may be called from
// many goroutines.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// Name returns the path the file was opened with.
	Name() string

	// Size returns the current length in bytes.
	Size() (int64, error)

	// Truncate sets the length.
	Truncate(size int64) error

	// Preallocate reserves space for [off, off+n) and grows the file to
	// off+n if it was shorter; new bytes read as zero. Where the system
	// cannot reserve, it only grows the file, and reserved is false: a write
	// there may still find the disk full.
	Preallocate(off, n int64) (reserved bool, err error)

	// SyncRange starts writing [off, off+n) back to the device, without a
	// promise. Its error counts as one of a sync: the system may have given
	// up what it failed to write, and the next sync may not say so.
	SyncRange(off, n int64) error

	// WaitRange waits for the end of what SyncRange has started in
	// [off, off+n), where the system can. It makes nothing durable, and its
	// error counts as that of SyncRange.
	WaitRange(off, n int64) error

	// SyncData makes the contents and the length durable (fdatasync).
	SyncData() error

	// Sync makes contents and all metadata durable (fsync).
	Sync() error

	// Map maps [0, n) of the file for reading. n must not exceed the size.
	// The mapping stays valid after the file is closed or removed.
	Map(n int64) (Mapping, error)
}

// Mapping is a read-only view of a file. Nothing may write to a mapped range
// of the file or cut the file below it.
type Mapping interface {
	// Bytes returns the mapped bytes, valid until Close.
	Bytes() []byte

	// WillNeed starts reading [off, off+n) ahead, without waiting.
	WillNeed(off, n int64) error

	// Populate reads [off, off+n) into memory and returns when it is there,
	// without holding a processor as a page fault in Go code would. Where the
	// system has what lies around that in its own memory, it brings that along.
	// It returns about how many bytes have come into the memory of the process.
	Populate(off, n int64) (brought int64, err error)

	// DontNeed gives the memory of [off, off+n) back to the system.
	DontNeed(off, n int64) error

	// Close ends the mapping. Its bytes must not be touched afterwards.
	Close() error
}
