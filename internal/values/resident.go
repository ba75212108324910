package values

import "github.com/stoatdb/stoat/internal/residency"

// Gauge tells approximately how much of the file's records is in memory, and whether
// they are in use.
func (r *Reader) Gauge() *residency.Gauge { return &r.gauge }

// loadStep is the number of bytes fetched by one call. A longer call would keep the
// processor from other goroutines.
const loadStep = 1 << 20

// Load fetches all records, in a small part of the time that the first reads would need
// piece by piece. It is for a file that was just written, whose pages the system still
// has in memory. A record is still verified at its first read.
func (r *Reader) Load() error {
	v, err := r.mapped()
	if err != nil {
		return err
	}
	if v.sealed != nil {
		v.sealed.Fill()
	}
	for from := int64(0); from < v.end; from += loadStep {
		if v.sealed != nil && v.sealed.Crowded() {
			break
		}
		brought, err := v.m.Populate(from, min(loadStep, v.end-from))
		if err != nil {
			return r.inFile(err)
		}
		r.gauge.Add(brought, v.end)
	}
	// From here on the memory governor must see the file as used.
	r.gauge.Touch()
	return nil
}

// DropPages returns the memory of the file's records to the system. Later reads fetch and
// verify them again. Borrowed values stay valid.
func (r *Reader) DropPages() error {
	v := r.v.Load()
	if v == nil {
		return nil
	}
	v.marks.clear()
	r.gauge.Clear()
	r.fetched.Store(0)
	v.advised.set(0, 0)
	err := v.m.DontNeed(0, v.end)
	// A reader may have verified pages before they were dropped. It may set its mark only
	// later. mark then sees the higher count, and clears all marks.
	v.drops.Add(1)
	v.marks.clear()
	return err
}

// mark remembers that the record at offset at was verified. drops is the count of drops from
// before the reader looked at its bytes.
func (v *view) mark(at int64, drops uint64) {
	v.marks.set(at)
	if v.drops.Load() != drops {
		v.marks.clear() // as DropPages did before this mark was set
	}
}

// Trim gives the memory of the sealed bytes of a sealed file back.
func (r *Reader) Trim() error {
	if v := r.v.Load(); v != nil && v.sealed != nil {
		return v.sealed.Trim()
	}
	return nil
}

// PageBytes returns how many bytes of the file's pages are in memory.
func (r *Reader) PageBytes() int64 {
	if v := r.v.Load(); v != nil && v.sealed != nil {
		return v.sealed.Used()
	}
	return r.gauge.Bytes()
}

// HeapBytes returns the approximate size of the reader on the Go heap.
func (r *Reader) HeapBytes() int64 {
	n := int64(readerBytes)
	if v := r.v.Load(); v != nil {
		n += v.marks.heapBytes()
		if v.sealed != nil {
			n += v.sealed.HeapBytes()
		}
	}
	return n
}

// MarkBytes returns the part of HeapBytes that Forget gives back.
func (r *Reader) MarkBytes() int64 {
	if v := r.v.Load(); v != nil {
		return v.marks.taken.Load()
	}
	return 0
}

// Forget gives the memory of the marks back. Later reads verify the records again.
func (r *Reader) Forget() {
	if v := r.v.Load(); v != nil {
		v.marks.clear()
	}
}

// readerBytes is the approximate heap size of a reader before its first read.
const readerBytes = 512
