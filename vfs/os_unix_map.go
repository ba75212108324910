//go:build linux || darwin || freebsd

package vfs

import (
	"io"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

var pageSize = os.Getpagesize()

// willNeedStep is the maximum number of bytes per WILLNEED advice. Linux shortens a
// longer one to the read-ahead size or the maximum request size of the device.
const willNeedStep = 512 << 10

// touchSize is the size in bytes of the buffer that Populate reads into if the kernel
// cannot populate a mapping.
const touchSize = 64 << 10

// osMapping is a mapping of a file.
type osMapping struct {
	data   []byte
	file   *osFile
	closed atomic.Bool
	// holdsFile reports whether the mapping keeps the descriptor open because
	// Populate reads through it.
	holdsFile bool
	// keepsUsed reports whether KeepUsed has been called since the last DontNeed.
	keepsUsed atomic.Bool
	windows   mapWindows
}

func (f *osFile) Map(n int64) (Mapping, error) {
	if !f.acquire() {
		return nil, WrapError(OpMap, f.name, ErrClosed)
	}
	m := &osMapping{file: f, holdsFile: !canPopulate()}
	if !m.holdsFile {
		defer f.release()
	}
	err := m.open(n)
	if err != nil {
		if m.holdsFile {
			f.release()
		}
		return nil, WrapError(OpMap, f.name, err)
	}
	return m, nil
}

// open maps the file. It checks the length first: access beyond the end of the file
// would raise SIGBUS.
func (m *osMapping) open(n int64) error {
	fd := m.file.fd
	var st unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return err
	}
	switch {
	case n < 0 || n > math.MaxInt:
		return errInvalid
	case n > st.Size:
		return errBeyondEnd
	case n == 0:
		return nil
	}
	data, err := unix.Mmap(fd, 0, int(n), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	// Without this advice, a page fault also reads the pages around it, up to the
	// read-ahead of the device, which can be megabytes. Readers of more than a page
	// call WillNeed or Populate.
	if err := unix.Madvise(data, unix.MADV_RANDOM); err != nil {
		_ = unix.Munmap(data) // the caller learns of the first error
		return err
	}
	m.data = data
	m.windows = newMapWindows(n)
	noteMapping(data, m.file.name)
	return nil
}

func (m *osMapping) Bytes() []byte { return m.data }

// pages returns the whole pages that cover [off, off+n).
func (m *osMapping) pages(op OpKind, off, n int64) ([]byte, error) {
	switch {
	case m.closed.Load():
		return nil, WrapError(op, m.file.name, ErrClosed)
	case off < 0 || n < 0 || n > int64(len(m.data))-off:
		return nil, WrapError(op, m.file.name, errBeyondEnd)
	case n == 0:
		return nil, nil
	}
	page := int64(pageSize)
	end := min(int64(len(m.data)), (off+n+page-1)/page*page)
	return m.data[off/page*page : end], nil
}

func (m *osMapping) WillNeed(off, n int64) error {
	b, err := m.pages(OpWillNeed, off, n)
	if err == nil && m.windows.mapped(off, n) {
		return nil
	}
	for err == nil && len(b) > 0 {
		step := min(len(b), willNeedStep)
		err = madvise(b[:step], unix.MADV_WILLNEED)
		b = b[step:]
	}
	return WrapError(OpWillNeed, m.file.name, err)
}

func (m *osMapping) Populate(off, n int64) (brought int64, err error) {
	b, err := m.pages(OpPopulate, off, n)
	if err != nil || len(b) == 0 {
		return 0, err
	}
	if m.holdsFile {
		return n, WrapError(OpPopulate, m.file.name, m.touch(off, n))
	}
	brought, all := m.around(off, n)
	if all {
		return brought, nil
	}
	others := fetching.Add(1) > 1
	defer fetching.Add(-1)
	if others || len(b) > pageSize {
		// Populate reads page by page. The advice makes the kernel read in large
		// requests.
		if err := m.WillNeed(off, n); err != nil {
			return brought, err
		}
	}
	if others {
		runtime.Gosched()
	}
	if err := populate(b); err != nil {
		return brought + n, WrapError(OpPopulate, m.file.name, err)
	}
	m.windows.note(off, n)
	return brought + n, nil
}

// fetching is the number of goroutines in Populate. A goroutine in a system call keeps
// its processor for at least 20 microseconds, in which other goroutines could start
// their reads. If there are others, each goroutine therefore starts its read, yields,
// and waits for the page only when it runs again. The page has often arrived by then.
var fetching atomic.Int32

var touchBuffers = sync.Pool{New: func() any { return new([touchSize]byte) }}

// touch reads [off, off+n) through the descriptor. The page cache then holds the range,
// and a page fault does not wait for the device.
func (m *osMapping) touch(off, n int64) error {
	buf := touchBuffers.Get().(*[touchSize]byte)
	defer touchBuffers.Put(buf)
	for n > 0 {
		part := buf[:min(n, touchSize)]
		got, err := unix.Pread(m.file.fd, part, off)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case got == 0:
			return io.ErrUnexpectedEOF
		}
		off += int64(got)
		n -= int64(got)
	}
	return nil
}

// KeepUsed takes back the advice of open, with which Linux does not look whether pages are
// used. If DontNeed runs at the same time, either advice may remain.
func (m *osMapping) KeepUsed() error {
	b, err := m.pages(OpKeepUsed, 0, int64(len(m.data)))
	if err != nil || len(b) == 0 || m.keepsUsed.Swap(true) {
		return err
	}
	return WrapError(OpKeepUsed, m.file.name, madvise(b, unix.MADV_NORMAL))
}

func (m *osMapping) DontNeed(off, n int64) error {
	b, err := m.pages(OpDontNeed, off, n)
	if err != nil || len(b) == 0 {
		return err
	}
	m.windows.forget(off, n)
	err = madvise(b, unix.MADV_DONTNEED)
	if err == nil && m.keepsUsed.Swap(false) {
		err = madvise(m.data, unix.MADV_RANDOM)
	}
	return WrapError(OpDontNeed, m.file.name, err)
}

func madvise(b []byte, advice int) error {
	return retryEINTR(func() error { return unix.Madvise(b, advice) })
}

func (m *osMapping) Close() error {
	if m.closed.Swap(true) {
		return WrapError(OpUnmap, m.file.name, ErrClosed)
	}
	var err error
	if m.data != nil {
		forgetMapping(m.data)
		err = unix.Munmap(m.data)
	}
	if m.holdsFile {
		m.file.release()
	}
	return WrapError(OpUnmap, m.file.name, err)
}
