//go:build linux || darwin || freebsd

package vfs

import (
	"runtime"
	"sync/atomic"
)

// mapWindowSize is the size in bytes of a window. Populate maps a whole window at once if
// the page cache holds all of it, as it does for recently written data. The first reads
// of such data then cost one system call per window instead of one per value. If the
// page cache does not hold the window, Populate reads only the requested range.
const mapWindowSize = 128 << 10

// mapWindows has the state of each window of a mapping. Zero is an unknown state.
type mapWindows []atomic.Uint32

// The states of a window.
const (
	windowCold   = iota + 1 // the page cache did not hold all of it
	windowMapped            // all of it is mapped into memory
)

func newMapWindows(size int64) mapWindows {
	return make(mapWindows, (size+mapWindowSize-1)/mapWindowSize)
}

// mapped reports whether all windows of [off, off+n) are mapped.
func (w mapWindows) mapped(off, n int64) bool {
	for i := off / mapWindowSize; i*mapWindowSize < off+n; i++ {
		if w[i].Load() != windowMapped {
			return false
		}
	}
	return true
}

// note records that [off, off+n) is mapped. Only whole windows count.
func (w mapWindows) note(off, n int64) {
	for i := (off + mapWindowSize - 1) / mapWindowSize; (i+1)*mapWindowSize <= off+n; i++ {
		w[i].Store(windowMapped)
	}
}

// forget records that memory of [off, off+n) was returned to the system.
func (w mapWindows) forget(off, n int64) {
	for i := off / mapWindowSize; i*mapWindowSize < off+n; i++ {
		w[i].Store(0)
	}
}

// aheadWindows is the number of windows that around looks at together behind a mapped
// window. A scan needs all of them, and one look costs little more than a look at one.
const aheadWindows = 8

// around maps the windows of [off, off+n) that the page cache holds. It stops at the
// first window that the cache does not hold. It returns the number of bytes that it
// mapped, and whether all windows are mapped.
func (m *osMapping) around(off, n int64) (brought int64, all bool) {
	for i := off / mapWindowSize; i*mapWindowSize < off+n; i++ {
		switch m.windows[i].Load() {
		case windowMapped:
			continue
		case windowCold:
			return brought, false
		}
		if ahead := m.mapAhead(i); ahead > 0 {
			brought += ahead
			continue
		}
		b := m.window(i, 1)
		if !cached(b) {
			m.windows[i].Store(windowCold)
			return brought, false
		}
		touchPages(b)
		m.windows[i].Store(windowMapped)
		brought += int64(len(b))
	}
	return brought, true
}

// window returns the bytes of count windows from number i on.
func (m *osMapping) window(i, count int64) []byte {
	return m.data[i*mapWindowSize : min((i+count)*mapWindowSize, int64(len(m.data)))]
}

// mapAhead maps the windows from number i on that a scan will need, if the page cache
// holds all of them. It returns the number of bytes that it mapped, 0 if it did nothing.
func (m *osMapping) mapAhead(i int64) int64 {
	if i == 0 || m.windows[i-1].Load() != windowMapped {
		return 0
	}
	n := int64(1)
	for n < aheadWindows && i+n < int64(len(m.windows)) && m.windows[i+n].Load() == 0 {
		n++
	}
	b := m.window(i, n)
	if n < 2 || !cachedFile(m.file.name, i*mapWindowSize, int64(len(b))) {
		return 0
	}
	touchPages(b)
	for k := range n {
		m.windows[i+k].Store(windowMapped)
	}
	return int64(len(b))
}

// faultAround is the number of bytes that Linux maps at a page fault, as far as the page
// cache holds them. A page fault costs a tenth of a system call that maps as much.
const faultAround = 64 << 10

// touchPages maps b, which begins at a window and which the page cache holds.
func touchPages(b []byte) {
	sum := byte(0)
	for i := 0; i < len(b); i += faultAround {
		sum += b[i]
	}
	runtime.KeepAlive(sum)
}
