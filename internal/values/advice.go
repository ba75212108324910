package values

import "sync/atomic"

// advise starts to read [from, to). If that continues the last request, it asks for much
// more at once. A scan will need it, and each request is a system call, even for data in
// memory. Two goroutines that scan the file at once only make more requests.
func (v *view) advise(from, to int64) {
	_, before := v.advised.get()
	if from >= before-prefetchGap && from <= before+prefetchGap && before > 0 {
		to = max(to, min(from+fetchAhead, v.end))
	}
	v.advised.set(from, to)
	// It is only a hint: a read of the value reports errors.
	_ = v.m.WillNeed(from, to-from)
}

// An advice is a range of a file in one atomic word. With two words, a concurrent
// reader could combine the bounds of different ranges. It counts in pages and
// includes every page that the range touches.
type advice struct{ pages atomic.Uint64 }

const (
	adviceShift = 12
	adviceBits  = 32
)

func (a *advice) get() (from, to int64) {
	p := a.pages.Load()
	return int64(p>>adviceBits) << adviceShift, int64(p&(1<<adviceBits-1)) << adviceShift
}

// has returns whether [from, to) is in the range.
func (a *advice) has(from, to int64) bool {
	start, end := a.get()
	return from >= start && to <= end
}

func (a *advice) set(from, to int64) {
	const last = 1<<adviceBits - 1 // the last page of a 16 TiB file
	first, end := uint64(from)>>adviceShift, (uint64(to)+1<<adviceShift-1)>>adviceShift
	a.pages.Store(min(first, last)<<adviceBits | min(end, last))
}
