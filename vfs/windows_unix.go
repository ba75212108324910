//go:build linux || darwin || freebsd

package vfs

import "sync/atomic"

// windowSize is what is brought into memory at once where the page cache has all
// of it, as it has what was just written: the first reads of it cost a system call
// for each window, and not for each value. Elsewhere no more is read than was
// asked for.
const windowSize = 128 << 10

// windows tell what is known of each window of a mapping.
type windows []atomic.Uint32

// The states of a window.
const (
	windowCold   = iota + 1 // the page cache did not have all of it
	windowMapped            // it was brought into memory
)

func newWindows(size int64) windows { return make(windows, (size+windowSize-1)/windowSize) }

// mapped reports whether all of [off, off+n) was brought into memory.
func (w windows) mapped(off, n int64) bool {
	for i := off / windowSize; i*windowSize < off+n; i++ {
		if w[i].Load() != windowMapped {
			return false
		}
	}
	return true
}

// note notes that all of [off, off+n) was brought into memory.
func (w windows) note(off, n int64) {
	for i := (off + windowSize - 1) / windowSize; (i+1)*windowSize <= off+n; i++ {
		w[i].Store(windowMapped)
	}
}

// forget notes that memory of [off, off+n) was given back.
func (w windows) forget(off, n int64) {
	for i := off / windowSize; i*windowSize < off+n; i++ {
		w[i].Store(0)
	}
}

// around brings the windows of [off, off+n) into memory, as far as the page cache
// has them. It returns how many bytes that were, and whether it were all.
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
