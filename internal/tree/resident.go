package tree

import (
	"io"

	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/internal/values"
)

// A Resident is an open table or value file whose pages may be in memory. The file
// may be closed at any moment; the Resident is then empty.
type Resident struct {
	kind residency.Kind
	file interface {
		loaded() pages
		locked(do func(pages) error) error
		retire() io.Closer
	}
}

// Residents appends all open files to dst.
func (f *Files) Residents(dst []Resident) []Resident {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.tables {
		if h.reader.Load() != nil {
			dst = append(dst, Resident{residency.Tables, h})
		}
	}
	for _, h := range f.values {
		if h.reader.Load() != nil {
			dst = append(dst, Resident{residency.Values, h})
		}
	}
	return dst
}

// Kind returns the kind of the file.
func (r *Resident) Kind() residency.Kind { return r.kind }

// Gauge returns the gauge of the file, nil if it has been closed.
func (r *Resident) Gauge() *residency.Gauge {
	if p := r.file.loaded(); p != nil {
		return p.Gauge()
	}
	return nil
}

// HeapBytes returns the approximate size of the file's reader on the Go heap.
func (r *Resident) HeapBytes() int64 {
	if p := r.file.loaded(); p != nil {
		return p.HeapBytes()
	}
	return 0
}

// MarkBytes returns the part of HeapBytes that Forget gives back.
func (r *Resident) MarkBytes() int64 {
	if v, ok := r.file.loaded().(*values.Reader); ok {
		return v.MarkBytes()
	}
	return 0
}

// Forget gives back what the reader of a value file takes to remember which values were
// verified.
func (r *Resident) Forget() {
	if v, ok := r.file.loaded().(*values.Reader); ok {
		v.Forget()
	}
}

// DropPages returns the memory of the file's pages to the system. It keeps the file
// from being closed meanwhile, because its addresses could then be reused.
func (r *Resident) DropPages() error { return r.file.locked(pages.DropPages) }

// PageBytes returns how many bytes of pages are in memory: those of the gauge, or those
// of a sealed file, which are known exactly.
func (r *Resident) PageBytes() int64 {
	if p := r.file.loaded(); p != nil {
		return p.PageBytes()
	}
	return 0
}

// Trim gives the memory of the sealed bytes of a file back. The decrypted pages stay.
func (r *Resident) Trim() error { return r.file.locked(pages.Trim) }

// Retire takes a file's reader out of use and returns it, or nil if there is none. The next
// read opens the file again. The caller closes the reader, which unmaps the file, once no
// reader of the database may hold bytes of it.
func (r *Resident) Retire() io.Closer { return r.file.retire() }
