package vfs

import (
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/stoatdb/stoat/internal/mutant"
)

const (
	// smallWrite is the greatest length in bytes of a write that goes through a window. A
	// longer one costs less as a system call, because each new page of a window costs a
	// fault.
	smallWrite = 2 << 10
	// writeWindowSize is the length of a window, and readyBytes how much of it is made ready
	// for writes at a time.
	writeWindowSize = 256 << 10
	readyBytes      = 64 << 10
)

// A writeWindow is a mapping of the part of a file that small writes fill. A write copies
// its bytes there, which takes no system call. As after pwrite, the bytes are then in the
// page cache: they survive the process, and SyncData makes them durable.
type writeWindow struct {
	expected atomic.Bool // writes may go through the window

	mu sync.Mutex
	// Guarded by mu.
	end   int64  // no write goes through the window from here on
	data  []byte // the mapping, or nil
	at    int64  // the offset of data in the file
	ready int64  // below this offset, the window can be written without a fault
}

// WillWrite makes small writes in [off, off+n) go through a window, where the system and
// the file system can. It stays without effect elsewhere.
func (f *osFile) WillWrite(off, n int64) {
	if off < 0 || n <= 0 || !f.acquire() {
		return
	}
	defer f.release()
	w := &f.window
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end = writableEnd(f.fd, off, n); w.end > off {
		w.expected.Store(true)
	}
}

// writableEnd returns the end of the part of [off, off+n) that a window may cover, or 0.
func writableEnd(fd int, off, n int64) int64 {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if !canPrepare() || unix.Fstat(fd, &st) != nil || unix.Fstatfs(fd, &fs) != nil {
		return 0
	}
	switch uint32(fs.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
	default:
		// Network file systems, and those that write each page to a new place, report errors
		// of mapped pages late or map no pages for writing.
		return 0
	}
	if n > st.Size-off {
		return st.Size
	}
	return off + n
}

// canPrepare reports whether the kernel has MADV_POPULATE_WRITE (5.14).
var canPrepare = sync.OnceValue(func() bool { return takesAdvice(unix.MADV_POPULATE_WRITE) })

// takes reports whether a write of n bytes goes through the window.
func (w *writeWindow) takes(n int) bool { return n > 0 && n <= smallWrite && w.expected.Load() }

// write writes p through the window. It reports false if it could not: the caller then
// writes all of p by a system call, which returns the error if there is one.
func (w *writeWindow) write(fd int, p []byte, off int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if off < 0 || off > w.end-int64(len(p)) {
		return false
	}
	if !w.reach(fd, off, off+int64(len(p))) || !copyGuarded(w.data[off-w.at:], p) {
		w.dropLocked()
		return false
	}
	return true
}

// reach makes the window cover [from, to), ready to be written.
func (w *writeWindow) reach(fd int, from, to int64) bool {
	page := int64(pageSize)
	if w.data == nil || from < w.at || to > w.at+int64(len(w.data)) {
		w.unmap()
		w.at = from / page * page
		sharing := unix.MAP_SHARED
		if mutant.On(mutant.PrivateWindow) {
			sharing = unix.MAP_PRIVATE
		}
		data, err := unix.Mmap(fd, w.at, int(min(writeWindowSize, w.end-w.at)), unix.PROT_READ|unix.PROT_WRITE, sharing)
		if err != nil {
			return false
		}
		w.data, w.ready = data, w.at
	}
	w.ready = max(w.ready, from/page*page)
	for w.ready < to {
		rest := w.data[w.ready-w.at:]
		rest = rest[:min(len(rest), readyBytes)]
		if madvise(rest, unix.MADV_POPULATE_WRITE) != nil {
			return false
		}
		w.ready += int64(len(rest))
	}
	return true
}

// copyGuarded copies p to a mapping. It reports false if a page cannot be written because
// the device or the file system failed.
func copyGuarded(to, p []byte) (ok bool) {
	was := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(was)
		if !ok {
			_ = recover() // a fault: nothing else in copy can panic
		}
	}()
	copy(to, p)
	return true
}

// drop ends the use of the window.
func (w *writeWindow) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked()
}

func (w *writeWindow) dropLocked() {
	w.expected.Store(false)
	w.end = 0
	w.unmap()
}

func (w *writeWindow) unmap() {
	if w.data != nil {
		_ = unix.Munmap(w.data) // can only fail if this is no mapping
		w.data = nil
	}
}
