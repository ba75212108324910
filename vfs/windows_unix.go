//go:build linux || darwin || freebsd

package vfs

import "sync/atomic"

// windowSize is the size in bytes of a window. Populate maps a whole window at once if
// the page cache holds all of it, as it does for recently written data. The first reads
// of such data then cost one system call per window instead of one per value. If the
// page cache does not hold the window, Populate reads only the requested range.
const windowSize = 128 << 10

// windows has the state of each window of a mapping. Zero is an unknown state.
type windows []atomic.Uint32

// The states of a window.
const (
	windowCold   = iota + 1 // the page cache did not hold all of it
	windowMapped            // all of it is mapped into memory
)

func newWindows(size int64) windows { return make(windows, (size+windowSize-1)/windowSize) }

// mapped reports whether all windows of [off, off+n) are mapped.
func (w windows) mapped(off, n int64) bool {
	for i := off / windowSize; i*windowSize < off+n; i++ {
		if w[i].Load() != windowMapped {
			return false
		}
	}
	return true
}

// note records that [off, off+n) is mapped. Only whole windows count.
func (w windows) note(off, n int64) {
	for i := (off + windowSize - 1) / windowSize; (i+1)*windowSize <= off+n; i++ {
		w[i].Store(windowMapped)
	}
}

// forget records that memory of [off, off+n) was returned to the system.
func (w windows) forget(off, n int64) {
	for i := off / windowSize; i*windowSize < off+n; i++ {
		w[i].Store(0)
	}
}

// around maps the windows of [off, off+n) that the page cache holds. It stops at the
// first window that the cache does not hold. It returns the number of bytes that it
// mapped, and whether all windows are mapped.
func (m *osMapping) around(off, n int64) (brought int64, all bool) {
	for i := off / windowSize; i*windowSize < off+n; i++ {
		switch m.windows[i].Load() {
		case windowMapped:
			continue
		case windowCold:
			return brought, false
		}
		b := m.data[i*windowSize : min((i+1)*windowSize, int64(len(m.data)))]
		if !cached(b) || populate(b) != nil {
			m.windows[i].Store(windowCold)
			return brought, false
		}
		m.windows[i].Store(windowMapped)
		brought += int64(len(b))
	}
	return brought, true
}
