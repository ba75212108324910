package vfs

import (
	"errors"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// openFile is os.OpenFile for the flags O_RDONLY, O_RDWR, O_CREATE and O_EXCL. The open
// file can be renamed and removed, as on other systems.
func openFile(name string, flags int) (*os.File, error) {
	return openSharing(name, flags, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE)
}

// openLock opens a file that the caller then locks. The open file cannot be removed:
// another process could otherwise create the file again and lock that.
func openLock(name string, flags int) (*os.File, error) {
	return openSharing(name, flags, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE)
}

// openSharing opens a file. share is the access that it leaves to other opens.
func openSharing(name string, flags int, share uint32) (*os.File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	access := uint32(windows.GENERIC_READ)
	if flags&os.O_RDWR != 0 {
		access |= windows.GENERIC_WRITE
	}
	how := uint32(windows.OPEN_EXISTING)
	switch {
	case flags&os.O_CREATE != 0 && flags&os.O_EXCL != 0:
		how = windows.CREATE_NEW
	case flags&os.O_CREATE != 0:
		how = windows.OPEN_ALWAYS
	}
	h, err := windows.CreateFile(path, access, share, nil, how, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(h), name), nil
}

// lockFile locks the first byte of a file. Windows releases the lock when the process
// ends, in whatever way.
func lockFile(f *os.File, shared bool) error {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}

func unlockFile(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, new(windows.Overlapped))
}

var reOpenFile = windows.NewLazySystemDLL("kernel32.dll").NewProc("ReOpenFile")

// syncFile flushes a file. Windows flushes only through a handle that may write. Followers
// sync files that they have open for reading. syncFile then opens the same file once more,
// even if its name has changed.
func syncFile(f *os.File) error {
	err := f.Sync()
	if !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var flushed error
	err = conn.Control(func(fd uintptr) {
		h, _, err := reOpenFile.Call(fd, windows.GENERIC_WRITE,
			windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, 0)
		if windows.Handle(h) == windows.InvalidHandle {
			flushed = err
			return
		}
		flushed = windows.FlushFileBuffers(windows.Handle(h))
		_ = windows.CloseHandle(windows.Handle(h)) // nothing was written through it
	})
	if err == nil {
		err = flushed
	}
	return err
}

// syncDir flushes a directory. Windows refuses this to users that may not write the
// attributes of the directory. syncDir then succeeds, because NTFS journals names.
func syncDir(dir string) error {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return err
	}
	h, err := windows.CreateFile(name, windows.GENERIC_WRITE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err == nil {
		err = windows.FlushFileBuffers(h)
		_ = windows.CloseHandle(h) // nothing was written through it
	}
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_INVALID_FUNCTION) {
		return nil
	}
	return err
}

func freeBytes(dir string) (uint64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return min(free, math.MaxInt64), err
}

// classOf maps the causes that package io/fs does not know.
func classOf(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return nil
	}
	switch errno {
	case windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED:
		return ErrNoSpace
	case windows.ERROR_CRC, windows.ERROR_IO_DEVICE, windows.ERROR_SECTOR_NOT_FOUND, windows.ERROR_READ_FAULT,
		windows.ERROR_WRITE_FAULT, windows.ERROR_FILE_CORRUPT, windows.ERROR_DISK_CORRUPT:
		return ErrIO
	case windows.ERROR_WRITE_PROTECT:
		return ErrReadOnly
	case windows.ERROR_TOO_MANY_OPEN_FILES:
		return ErrTooManyFiles
	}
	return nil
}

func isNotEmpty(err error) bool { return errors.Is(err, windows.ERROR_DIR_NOT_EMPTY) }
