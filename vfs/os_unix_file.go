//go:build linux || darwin || freebsd

package vfs

import (
	"io"
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ioMax is the maximum number of bytes that one system call reads or writes. Linux
// moves at most 2 GiB less a page. macOS refuses more than 2 GiB less one byte.
const ioMax = 1 << 30

// osFile is an open regular file. It uses a descriptor instead of an os.File because
// regular files do not need the poller of the runtime.
type osFile struct {
	fd   int
	name string
	// users is twice the number of calls and mappings that use the descriptor, plus
	// one after Close. The last user closes the descriptor. If Close closed it during
	// a write, the system could assign its number to another file, and the write
	// would change that file.
	users  atomic.Int64
	window writeWindow
}

func newOSFile(fd int, name string) *osFile { return &osFile{fd: fd, name: name} }

// acquire keeps the descriptor open until release. It returns false if the file is
// closed.
func (f *osFile) acquire() bool {
	for {
		n := f.users.Load()
		if n&1 != 0 {
			return false
		}
		if f.users.CompareAndSwap(n, n+2) {
			return true
		}
	}
}

func (f *osFile) release() {
	if f.users.Add(-2) == 1 {
		// Close has returned already. Its error does not tell what is durable.
		f.window.drop()
		_ = unix.Close(f.fd)
	}
}

// Close closes the file. If calls or mappings still use the descriptor, the last of
// them closes it.
func (f *osFile) Close() error {
	for {
		n := f.users.Load()
		if n&1 != 0 {
			return WrapError(OpClose, f.name, ErrClosed)
		}
		if !f.users.CompareAndSwap(n, n|1) {
			continue
		}
		if n > 0 {
			return nil
		}
		f.window.drop()
		// After EINTR, the descriptor is closed on Linux and in an unknown state
		// elsewhere. A second close could close another file.
		if err := unix.Close(f.fd); err != unix.EINTR {
			return WrapError(OpClose, f.name, err)
		}
		return nil
	}
}

func (f *osFile) Name() string { return f.name }

func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	if !f.acquire() {
		return 0, WrapError(OpRead, f.name, ErrClosed)
	}
	defer f.release()
	done := 0
	for done < len(p) {
		part := p[done:min(len(p), done+ioMax)]
		n, err := unix.Pread(f.fd, part, off+int64(done))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return done, WrapError(OpRead, f.name, err)
		case n == 0:
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	if !f.acquire() {
		return 0, WrapError(OpWrite, f.name, ErrClosed)
	}
	defer f.release()
	if f.window.takes(len(p)) && f.window.write(f.fd, p, off) {
		return len(p), nil
	}
	done := 0
	for done < len(p) {
		part := p[done:min(len(p), done+ioMax)]
		n, err := unix.Pwrite(f.fd, part, off+int64(done))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return done, WrapError(OpWrite, f.name, err)
		case n == 0:
			return done, WrapError(OpWrite, f.name, io.ErrShortWrite)
		}
		done += n
	}
	return done, nil
}

// once runs a call on the descriptor.
func (f *osFile) once(op OpKind, call func(fd int) error) error {
	if !f.acquire() {
		return WrapError(op, f.name, ErrClosed)
	}
	defer f.release()
	return WrapError(op, f.name, call(f.fd))
}

// do is once for a call that may be repeated while signals interrupt it.
func (f *osFile) do(op OpKind, call func(fd int) error) error {
	return f.once(op, func(fd int) error { return retryEINTR(func() error { return call(fd) }) })
}

func (f *osFile) Size() (int64, error) {
	var st unix.Stat_t
	err := f.do(OpSize, func(fd int) error { return unix.Fstat(fd, &st) })
	return st.Size, err
}

func (f *osFile) Truncate(size int64) error {
	f.window.drop() // access beyond the end of the file would raise SIGBUS
	return f.do(OpTruncate, func(fd int) error { return unix.Ftruncate(fd, size) })
}

func (f *osFile) Preallocate(off, n int64) (reserved bool, err error) {
	err = f.do(OpPreallocate, func(fd int) (err error) {
		if off < 0 || n < 0 || off > math.MaxInt64-n {
			return unix.EINVAL
		}
		reserved, err = preallocate(fd, off, n)
		return err
	})
	return reserved && err == nil, err
}

// grow sets the length to at least size. It is not atomic: it may truncate what another
// goroutine writes beyond size at the same time.
func grow(fd int, size int64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Size >= size {
		return nil
	}
	return unix.Ftruncate(fd, size)
}

func (f *osFile) SyncRange(off, n int64) error {
	if n <= 0 {
		return nil
	}
	return f.do(OpSyncRange, func(fd int) error { return syncRange(fd, off, n) })
}

// WaitRange does not repeat an interrupted call, for the reason given at SyncData.
func (f *osFile) WaitRange(off, n int64) error {
	if n <= 0 {
		return nil
	}
	return f.once(OpWaitRange, func(fd int) error { return waitRange(fd, off, n) })
}

// SyncData does not repeat an interrupted sync. That sync may have consumed the error of
// a failed write. A repetition would then succeed although data was lost.
func (f *osFile) SyncData() error { return f.once(OpSyncData, dataSync) }

// Sync does not repeat an interrupted sync, for the reason given at SyncData.
func (f *osFile) Sync() error { return f.once(OpSync, fullSync) }
