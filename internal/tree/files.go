package tree

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/vfs"
)

// Options say where tables are.
type Options struct {
	FS  vfs.FS
	Dir string
	// HashSeed is the seed of the database's key hash.
	HashSeed uint64
}

// Files is the tables of a database that may be read. Its methods may be
// called from many goroutines.
type Files struct {
	opts Options

	mu      sync.Mutex
	handles map[base.FileNum]*handle
}

// New returns an empty set.
func New(opts Options) *Files {
	return &Files{opts: opts, handles: map[base.FileNum]*handle{}}
}

// A Table is a table that may be read: what the manifest says of it, and its
// reader once somebody needed it.
type Table struct {
	*manifest.Table
	*handle
}

// A handle is the reader of a table. A table that moves to another level
// keeps it.
type handle struct {
	reader atomic.Pointer[table.Reader]
	mu     sync.Mutex // held while the reader is made
	closed bool       // guarded by mu
}

// reader returns the reader of t, and opens it if nobody has before.
func (f *Files) reader(t *Table) (*table.Reader, error) {
	if r := t.handle.reader.Load(); r != nil {
		return r, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.handle.reader.Load(); r != nil {
		return r, nil
	}
	if t.closed {
		return nil, fmt.Errorf("table %s: %w", base.TableName(t.Num), vfs.ErrClosed)
	}
	r, err := f.Open(t.Table)
	if err != nil {
		return nil, err
	}
	t.handle.reader.Store(r)
	return r, nil
}

// close ends the reading of the table for good.
func (h *handle) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if r := h.reader.Swap(nil); r != nil {
		return r.Close()
	}
	return nil
}

// Open returns a reader of the table of its own, which the caller closes. A
// file that is missing or that is another one than the manifest says is
// corruption.
func (f *Files) Open(t *manifest.Table) (*table.Reader, error) {
	name := base.TableName(t.Num)
	file, err := f.opts.FS.Open(f.opts.FS.Join(f.opts.Dir, name), vfs.CatTable)
	if errors.Is(err, vfs.ErrNotExist) {
		return nil, &base.CorruptionError{File: name, Offset: -1, What: "table", Got: "no file", Want: fmt.Sprintf("%d bytes", t.Size)}
	}
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err == nil && size != t.Size {
		err = base.InFile(base.Corrupt(-1, "size of a table", size, t.Size), name)
	}
	if err != nil {
		_ = file.Close() // it was only opened; the error that is known says more
		return nil, err
	}
	r, err := table.Open(file, size, name, table.ReaderOptions{})
	if err != nil {
		return nil, err
	}
	if got := r.Properties().Salt; got != t.Salt {
		_ = r.Close() // as above
		return nil, base.InFile(base.Corrupt(-1, "salt of a table", fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", t.Salt)), name)
	}
	return r, nil
}

// table returns what readers use of the table m. The caller holds mu.
func (f *Files) table(m *manifest.Table) *Table {
	h := f.handles[m.Num]
	if h == nil {
		h = new(handle)
		f.handles[m.Num] = h
	}
	return &Table{Table: m, handle: h}
}

// Drop ends the reading of tables that nobody can reach any more. The files
// stay.
func (f *Files) Drop(nums []base.FileNum) error {
	var errs []error
	for _, n := range nums {
		f.mu.Lock()
		h := f.handles[n]
		delete(f.handles, n)
		f.mu.Unlock()
		if h != nil {
			errs = append(errs, h.close())
		}
	}
	return errors.Join(errs...)
}

// Close ends the reading of all tables.
func (f *Files) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, h := range f.handles {
		errs = append(errs, h.close())
	}
	clear(f.handles)
	return errors.Join(errs...)
}
