package tree

import (
	"io"

	"github.com/stoatdb/stoat/internal/residency"
)

// A Resident is an open table or value file whose pages may be in memory. The file
// may be closed at any moment; the Resident is then empty.
type Resident struct {
	table  *tableHandle
	values *valueHandle
}

// Residents appends all open files to dst.
func (f *Files) Residents(dst []Resident) []Resident {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.tables {
		if h.reader.Load() != nil {
			dst = append(dst, Resident{table: h})
		}
	}
	for _, h := range f.values {
		if h.reader.Load() != nil {
			dst = append(dst, Resident{values: h})
		}
	}
	return dst
}

// Kind returns the kind of the file.
func (r *Resident) Kind() residency.Kind {
	if r.table != nil {
		return residency.Tables
	}
	return residency.Values
}

// Gauge returns the gauge of the file, nil if it has been closed.
func (r *Resident) Gauge() *residency.Gauge {
	if r.table != nil {
		if t := r.table.reader.Load(); t != nil {
			return t.Gauge()
		}
	} else if v := r.values.reader.Load(); v != nil {
		return v.Gauge()
	}
	return nil
}

// HeapBytes returns the approximate size of the file's reader on the Go heap.
func (r *Resident) HeapBytes() int64 {
	if r.table != nil {
		if t := r.table.reader.Load(); t != nil {
			return t.HeapBytes()
		}
	} else if v := r.values.reader.Load(); v != nil {
		return v.HeapBytes()
	}
	return 0
}

// MarkBytes returns the part of HeapBytes that Forget gives back.
func (r *Resident) MarkBytes() int64 {
	if r.values != nil {
		if v := r.values.reader.Load(); v != nil {
			return v.MarkBytes()
		}
	}
	return 0
}

// Forget gives back what the reader of a value file takes to remember which values were
// verified.
func (r *Resident) Forget() {
	if r.values != nil {
		if v := r.values.reader.Load(); v != nil {
			v.Forget()
		}
	}
}

// DropPages returns the memory of the file's pages to the system. It keeps the file
// from being closed meanwhile, because its addresses could then be reused.
func (r *Resident) DropPages() error {
	if r.table != nil {
		r.table.mu.Lock()
		defer r.table.mu.Unlock()
		if t := r.table.reader.Load(); t != nil {
			return t.DropPages()
		}
		return nil
	}
	r.values.mu.Lock()
	defer r.values.mu.Unlock()
	if v := r.values.reader.Load(); v != nil {
		return v.DropPages()
	}
	return nil
}

// PageBytes returns how many bytes of pages are in memory: those of the gauge, or those
// of a sealed file, which are known exactly.
func (r *Resident) PageBytes() int64 {
	if r.table != nil {
		if t := r.table.reader.Load(); t != nil {
			return t.PageBytes()
		}
	} else if v := r.values.reader.Load(); v != nil {
		return v.PageBytes()
	}
	return 0
}

// Trim gives the memory of the sealed bytes of a file back. The decrypted pages stay.
func (r *Resident) Trim() error {
	if r.table != nil {
		r.table.mu.Lock()
		defer r.table.mu.Unlock()
		if t := r.table.reader.Load(); t != nil {
			return t.Trim()
		}
		return nil
	}
	r.values.mu.Lock()
	defer r.values.mu.Unlock()
	if v := r.values.reader.Load(); v != nil {
		return v.Trim()
	}
	return nil
}

// Retire takes a file's reader out of use and returns it, or nil if there is none. The next
// read opens the file again. The caller closes the reader, which unmaps the file, once no
// reader of the database may hold bytes of it.
func (r *Resident) Retire() io.Closer {
	if r.table != nil {
		return r.table.retire()
	}
	return r.values.retire()
}

// CacheBytes returns the size of the decoded blocks in the cache, in bytes.
func (f *Files) CacheBytes() int64 {
	if f.opts.Cache == nil {
		return 0
	}
	return f.opts.Cache.Stats().Bytes
}
