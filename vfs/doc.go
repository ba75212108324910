// Package vfs defines the file system that stoat runs on, and implements it for
// the operating system.
//
// The interface [FS] has three implementations:
//
//   - [OS] in this package is the file system of the operating system.
//   - Package vfs/memfs is a simulated disk in memory that can lose power.
//   - Package vfs/faultfs wraps another FS and injects faults.
//
// An application can also implement FS itself. To change some methods of an FS, embed
// it in a struct and declare these methods.
//
// # Implementing FS
//
// stoat relies on the following promises, which POSIX file systems make:
//
//   - WriteAt makes bytes visible to every reader at once. The bytes survive a crash
//     of the process. They survive a power cut only after SyncData or Sync, on any
//     handle of the file, returned nil.
//   - A created, renamed, linked or removed name survives a power cut only after
//     SyncDir on its directory returned nil.
//   - SyncRange starts to write data to the device, and WaitRange waits for it.
//     Neither makes data durable. If one fails, its range may be lost, as after a
//     failed sync.
//   - After a failed sync, the contents of the file on the device are unknown. A
//     later sync that succeeds does not cover the data of the failed one. Every
//     handle that was open during the failure reports it once.
//   - Two goroutines may sync two handles of one file at the same time. The failure
//     is reported once per handle. Goroutines that sync concurrently therefore need
//     a handle each: on a shared handle, only one of them may see the failure.
//
// The comments of FS, [File] and [Mapping] tell which methods may run concurrently.
//
// Methods report failures that callers branch on with the errors of this package,
// such as [ErrNotExist] and [ErrNoSpace]. errors.Is must find them in the returned
// error. [WrapError] adds the operation and the path to an error.
//
// # The operating system
//
// Files get mode 0600 and directories mode 0700, whatever the umask. Opening a
// symbolic link, a FIFO or a device fails. A directory in the path may be a symbolic
// link. Calls that a signal interrupts are repeated, except syncs. A read or write
// that moves fewer bytes than requested continues or returns an error. Close may run
// at the same time as other calls on the file, which then finish or fail with
// [ErrClosed].
//
// The platforms differ:
//
//   - Linux supports everything.
//   - macOS syncs with F_FULLFSYNC. It reserves space where the file system can.
//   - macOS and FreeBSD populate a mapping by reading the file.
//   - FreeBSD and Windows do not reserve space.
//   - Windows reads a mapped file into memory.
//   - On other systems, files work, and Lock fails with [ErrUnsupported].
//
// Access to a mapping reads single pages, without read-ahead, except after KeepUsed. A
// reader of a larger range first calls WillNeed or Populate, which also avoids a page
// fault that would block a processor.
//
// # Memory
//
// [Alloc] returns memory outside the Go heap, in huge pages where the system has
// them. [AllocatedBytes] returns how much of it is in use. Under the race detector,
// Alloc uses the heap, because the detector sees nothing else.
package vfs
