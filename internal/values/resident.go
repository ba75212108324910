package values

import "github.com/stoatdb/stoat/internal/residency"

// Gauge tells about how much of the file's records is in memory, and whether
// they are in use.
func (r *Reader) Gauge() *residency.Gauge { return &r.gauge }

// loadStep is how much of a file is fetched by one call: a goroutine in a longer one
// would keep its processor from others.
const loadStep = 1 << 20

// Load fetches what the first reads of everything would fetch piece by piece, in a
// small part of the time. It is meant for a file that was just written, whose pages
// the system still has in memory. Each record is verified when it is read.
func (r *Reader) Load() error {
	v, err := r.mapped()
	if err != nil {
		return err
	}
	for from := int64(0); from < v.end; from += loadStep {
		brought, err := v.m.Populate(from, min(loadStep, v.end-from))
		if err != nil {
			return r.inFile(err)
		}
		r.gauge.Add(brought, v.end)
	}
	// From here on the governor of memory has to know of it.
	r.gauge.Touch()
	return nil
}

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
