package values

import "github.com/stoatdb/stoat/internal/residency"

// Gauge tells about how much of the file's records is in memory, and whether
// they are in use.
func (r *Reader) Gauge() *residency.Gauge { return &r.gauge }

// GiveBack returns the memory of the file's records to the system. What is
// read later is fetched and verified again. Values that were read before stay
// valid.
func (r *Reader) GiveBack() error {
	v := r.v.Load()
	if v == nil {
		return nil
	}
	v.marks.clear()
	r.gauge.Clear()
	r.fetched.Store(0)
	v.advised.set(0, 0)
	return v.m.DontNeed(0, v.end)
}

// HeapBytes is about how much of the Go heap the reader takes.
func (r *Reader) HeapBytes() int64 {
	n := int64(readerBytes)
	if v := r.v.Load(); v != nil {
		n += v.marks.heapBytes()
	}
	return n
}

// readerBytes is about what a reader takes that nobody has read from.
const readerBytes = 512
