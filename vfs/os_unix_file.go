//go:build linux || darwin || freebsd

package vfs

import (
	"io"
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ioMax bounds one system call. Linux moves at most 2 GiB less a page, macOS
// refuses more than 2 GiB less one byte.
const ioMax = 1 << 30

// osFile is an open regular file. It holds the descriptor itself rather than
// an os.File: a regular file has no use for the runtime's poller.
type osFile struct {
	fd   int
	name string
	// users counts the calls and mappings that use the descriptor, times two,
	// plus one once the file is closed. The last one out closes it, so that a
	// Close in the middle of a write cannot hand the write's descriptor number
	// to another file.
	users atomic.Int64
}

func newOSFile(fd int, name string) *osFile { return &osFile{fd: fd, name: name} }

// acquire keeps the descriptor open until release. It reports false when the
// file is closed.
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
		// Close has returned already. Its error would say nothing about what is
		// durable: only a sync does.
		_ = unix.Close(f.fd)
	}
}

// Close closes the file at once, or, when calls or mappings still use the
// descriptor, with the last of them.
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
		// After EINTR the descriptor is gone on Linux and unspecified elsewhere:
		// a second close could hit another file.
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

// do runs a call on the descriptor and repeats it while it is interrupted.
func (f *osFile) do(op OpKind, call func(fd int) error) error {
	if !f.acquire() {
		return WrapError(op, f.name, ErrClosed)
	}
	defer f.release()
	return WrapError(op, f.name, retryEINTR(func() error { return call(f.fd) }))
}

func (f *osFile) Size() (int64, error) {
	var st unix.Stat_t
	err := f.do(OpSize, func(fd int) error { return unix.Fstat(fd, &st) })
	return st.Size, err
}

func (f *osFile) Truncate(size int64) error {
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

// grow sets the size to at least size. It is not atomic: a write beyond size
// that another goroutine makes at the same moment may be cut.
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

// WaitRange is not repeated when it was interrupted, for the reason that
// SyncData gives.
func (f *osFile) WaitRange(off, n int64) error {
	if n <= 0 {
		return nil
	}
	if !f.acquire() {
		return WrapError(OpWaitRange, f.name, ErrClosed)
	}
	defer f.release()
	return WrapError(OpWaitRange, f.name, waitRange(f.fd, off, n))
}

// SyncData is not repeated when it was interrupted. What an interrupted sync
// has done is unknown, and an error that it consumed will not be reported
// again: a repetition that succeeds could call lost data durable.
func (f *osFile) SyncData() error {
	if !f.acquire() {
		return WrapError(OpSyncData, f.name, ErrClosed)
	}
	defer f.release()
	return WrapError(OpSyncData, f.name, dataSync(f.fd))
}

// Sync is not repeated either, for the reason that SyncData gives.
func (f *osFile) Sync() error {
	if !f.acquire() {
		return WrapError(OpSync, f.name, ErrClosed)
	}
	defer f.release()
	return WrapError(OpSync, f.name, fullSync(f.fd))
}
