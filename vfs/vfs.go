package vfs

import "io"

// A Category is the purpose of a file. Fault rules and simulated power cuts can
// select files by their category.
type Category uint8

// The categories of files.
const (
	CatNone     Category = iota // unknown purpose
	CatLog                      // segment of the write-ahead log
	CatManifest                 // manifest
	CatTable                    // table
	CatValue                    // value file
	CatLock                     // lock file
	CatTemp                     // temporary file
	CatKeys                     // file of wrapped data keys
)

// FS is a file system. Its methods may be called from several goroutines at the
// same time. Join builds the paths that the other methods take.
type FS interface {
	// Create creates a file for reading and writing that only its owner may
	// access. It fails with ErrExist if the name exists. It does not follow a
	// symbolic link in the last element of the path.
	Create(name string, cat Category) (File, error)

	// Open opens an existing file for reading.
	Open(name string, cat Category) (File, error)

	// OpenReadWrite opens an existing file for reading and writing.
	OpenReadWrite(name string, cat Category) (File, error)

	// Rename renames a file or directory. It atomically replaces newName if that
	// exists.
	Rename(oldName, newName string) error

	// Link makes newName a second name of the file oldName. It fails with
	// ErrExist if newName exists.
	Link(oldName, newName string) error

	// Remove removes a file or an empty directory. Open files and mappings of
	// the removed file stay usable.
	Remove(name string) error

	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)

	// MkdirAll creates a directory and its missing parents. Only their owner may
	// access them. It syncs the parent of each directory that it creates. It removes
	// the directory again if that sync fails.
	MkdirAll(dir string) error

	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error

	// Stat describes a file or directory.
	Stat(name string) (Info, error)

	// Lock takes the exclusive lock of a file and the exclusive lock of its
	// directory. It creates the file if necessary. It fails with ErrLocked while
	// another caller, in this process or another, holds a lock of either. Closing
	// the returned Closer releases both locks, and so does the end of the process.
	//
	// The lock of the directory still excludes other callers after a user removed
	// the file. Systems that cannot lock directories lock the file alone. Windows
	// is one of them; it refuses to remove the file while it is locked.
	Lock(name string) (io.Closer, error)

	// LockShared takes the shared lock of a file and the shared lock of its
	// directory. The file must exist; LockShared does not change it. Several
	// callers may hold shared locks at the same time. LockShared fails with
	// ErrLocked while another caller holds an exclusive lock of either, and Lock
	// fails with ErrLocked while another caller holds a shared one.
	LockShared(name string) (io.Closer, error)

	// LockDir takes the exclusive lock of an existing directory, which is one of
	// the two that Lock takes. The lock stays with the directory when that is
	// renamed. On systems that cannot lock directories, LockDir takes no lock.
	LockDir(dir string) (io.Closer, error)

	// Free returns how many bytes an unprivileged user can still write to the
	// file system of dir.
	Free(dir string) (uint64, error)

	// Abs returns a path that stays valid when the working directory of the
	// process changes.
	Abs(name string) (string, error)

	// Join joins path elements with the separator of this file system.
	Join(elem ...string) string

	// Base returns the last element of a path.
	Base(name string) string

	// Dir returns all but the last element of a path.
	Dir(name string) string
}

// Info describes a file or directory.
type Info struct {
	// Size is the length in bytes.
	Size int64
	// Allocated is the space on the device in bytes, or Size if unknown.
	Allocated int64
	// Dir reports whether this is a directory.
	Dir bool
}

// File is an open file. ReadAt, WriteAt and the syncs may be called from several
// goroutines at the same time.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// Name returns the path with which the file was opened.
	Name() string

	// Size returns the length in bytes.
	Size() (int64, error)

	// Truncate sets the length in bytes. New bytes read as zero.
	Truncate(size int64) error

	// Preallocate reserves space for [off, off+n). It grows the file to off+n bytes if the
	// file is shorter; new bytes read as zero. If the system cannot reserve space,
	// Preallocate only grows the file and reserved is false. A later write to the range may
	// then fail with ErrNoSpace.
	Preallocate(off, n int64) (reserved bool, err error)

	// WillWrite says that many small writes will fill [off, off+n), one behind the other.
	// The file system may then map the range, so that WriteAt needs no system call for
	// them. What WriteAt promises stays the same. No other process may truncate the file.
	WillWrite(off, n int64)

	// SyncRange starts to write [off, off+n) to the device and does not wait. It
	// makes nothing durable. Its error means that data may be lost, as the error
	// of a sync does: a later sync may not report it.
	SyncRange(off, n int64) error

	// WaitRange waits for the writes that SyncRange started in [off, off+n), where
	// the system can. It makes nothing durable. Its error has the meaning of
	// SyncRange's.
	WaitRange(off, n int64) error

	// SyncData makes the contents and the length durable (fdatasync).
	SyncData() error

	// Sync makes the contents and all metadata durable (fsync).
	Sync() error

	// Map maps [0, n) of the file for reading. n must not exceed the length. The
	// mapping stays valid after the file is closed or removed.
	Map(n int64) (Mapping, error)
}

// Mapping is a read-only view of a file. The mapped range of the file must not be
// written or truncated while the mapping exists. All methods except Close may be called
// from several goroutines at the same time.
type Mapping interface {
	// Bytes returns the mapped bytes. They are valid until Close, and the caller
	// must not write to them.
	Bytes() []byte

	// WillNeed starts to read [off, off+n) into memory and does not wait.
	WillNeed(off, n int64) error

	// Populate reads [off, off+n) into memory and waits for it. Unlike a page
	// fault, it does not block a processor of the Go scheduler. It may also map
	// adjacent pages that the page cache holds. It returns approximately how many
	// bytes of memory the process gained.
	Populate(off, n int64) (brought int64, err error)

	// KeepUsed asks the system to evict pages in use later than others, when it needs memory.
	// Otherwise it may evict them in the order in which they came. Access to an evicted page
	// may then also read the pages around it. DontNeed of any part ends this for the whole
	// mapping.
	KeepUsed() error

	// DontNeed returns the memory of [off, off+n) to the system. Later access
	// reads the file again.
	DontNeed(off, n int64) error

	// Close removes the mapping. No goroutine may access its bytes afterwards.
	Close() error
}
