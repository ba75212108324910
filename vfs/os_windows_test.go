package vfs

import (
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/sys/windows"
)

func TestWrapError_FindsTheClassOfAnErrno(t *testing.T) {
	t.Parallel()
	for errno, want := range map[syscall.Errno]error{
		windows.ERROR_FILE_NOT_FOUND: ErrNotExist, windows.ERROR_FILE_EXISTS: ErrExist, windows.ERROR_ACCESS_DENIED: ErrPermission,
		windows.ERROR_DISK_FULL: ErrNoSpace, windows.ERROR_CRC: ErrIO, windows.ERROR_IO_DEVICE: ErrIO,
		windows.ERROR_SECTOR_NOT_FOUND: ErrIO, windows.ERROR_DISK_CORRUPT: ErrIO, windows.ERROR_WRITE_PROTECT: ErrReadOnly,
		windows.ERROR_TOO_MANY_OPEN_FILES: ErrTooManyFiles,
	} {
		err := WrapError(OpWrite, "a", fmt.Errorf("cause: %w", errno))
		wantIs(t, err, want)
		wantIs(t, err, errno)
	}
}
