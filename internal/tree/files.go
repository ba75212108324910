package tree

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

// Options configure Files.
type Options struct {
	FS  vfs.FS
	Dir string
	// HashSeed is the seed of the database's key hash.
	HashSeed uint64
	// MappedOnly closes files once they are mapped, to save descriptors. Then no
	// iterator over tables may be Unmapped.
	MappedOnly bool
	// KeepsValues keeps value files open all the same, because their names may go.
	KeepsValues bool
	// Cache keeps decoded blocks of tables; it may be nil.
	Cache *cache.Cache
	// Closed returns an error once the database is closed. Another process may
	// then own the files in the directory, so their state means nothing. Closed
	// may be nil.
	Closed func() error
	// Used is called when a file is used that was not used in the last round;
	// see Files.Residents. It is also called when LoadMissed has something to do. It
	// must return at once. It may be nil.
	Used func()
	// Scanned is called when a table begins to count as scanned; see Files.Scanned. It must
	// return at once. It may be nil.
	Scanned func()
}

// Files holds the readable tables and value files of a database. Its methods are safe
// for concurrent use.
type Files struct {
	opts Options // immutable

	missed atomic.Bool // a table counts as missed; see LoadMissed

	mu sync.Mutex

	// Guarded by mu.

	tables map[base.FileNum]*tableHandle
	values map[base.FileNum]*valueHandle // by the number in the file's name
}

type valueHandle = handle[values.Reader, *values.Reader]

// New returns an empty set.
func New(opts Options) *Files {
	return &Files{opts: opts, tables: map[base.FileNum]*tableHandle{}, values: map[base.FileNum]*valueHandle{}}
}

// A Table is a readable table: its metadata, and its reader once a read needed
// it.
type Table struct {
	*manifest.Table
	*tableHandle
}

// pages is the reader of a file, as far as its memory is concerned.
type pages interface {
	io.Closer
	Gauge() *residency.Gauge
	HeapBytes() int64
	PageBytes() int64
	DropPages() error
	Trim() error
}

// A handle holds the reader of a file, made when it is first needed. A table that
// moves to another level keeps its handle.
type handle[T any, P interface {
	*T
	pages
}] struct {
	reader atomic.Pointer[T] // changes under mu
	mu     sync.Mutex        // held while the reader is made
	closed bool              // guarded by mu
}

// open returns the reader. If there is none yet, it calls open to make it.
func (h *handle[T, P]) open(name string, open func() (*T, error)) (*T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.reader.Load(); r != nil {
		return r, nil
	}
	if h.closed {
		return nil, fmt.Errorf("%s: %w", name, vfs.ErrClosed)
	}
	r, err := open()
	if err == nil {
		h.reader.Store(r)
	}
	return r, err
}

// loaded returns the reader, or nil if there is none.
func (h *handle[T, P]) loaded() pages {
	if r := h.reader.Load(); r != nil {
		return P(r)
	}
	return nil
}

// locked calls do with the reader, if there is one. No other goroutine closes the reader
// meanwhile.
func (h *handle[T, P]) locked(do func(pages) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.reader.Load(); r != nil {
		return do(P(r))
	}
	return nil
}

// retire returns the reader, which the caller closes when no goroutine uses it any more.
// The next read opens another one. It returns nil if there is none.
func (h *handle[T, P]) retire() io.Closer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.reader.Swap(nil); r != nil {
		return P(r)
	}
	return nil
}

// close closes the reader. The handle cannot be opened again.
func (h *handle[T, P]) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if r := h.reader.Swap(nil); r != nil {
		return P(r).Close()
	}
	return nil
}

// reader returns the reader of t and opens it if needed.
func (f *Files) reader(t *Table) (*table.Reader, error) {
	if r := t.tableHandle.reader.Load(); r != nil {
		return r, nil
	}
	return t.open(base.TableName(t.Num), func() (*table.Reader, error) {
		return f.open(t.Table, table.ReaderOptions{
			Cache: f.opts.Cache, CacheID: cacheID(t.Table), MappedOnly: f.opts.MappedOnly, WithoutValueFiles: true,
			Used: f.opts.Used, Missed: f.miss,
		})
	})
}

// cacheID identifies a table in the cache. In a database that follows another process, a
// number may belong to another table later, which has another salt.
func cacheID(t *manifest.Table) uint64 { return uint64(t.Num) ^ t.Salt }

// Open returns a separate reader of the table, which the caller must close. A
// missing file, or one that does not match the manifest, is corruption.
func (f *Files) Open(t *manifest.Table) (*table.Reader, error) {
	return f.open(t, table.ReaderOptions{})
}

func (f *Files) open(t *manifest.Table, opts table.ReaderOptions) (_ *table.Reader, err error) {
	defer f.orClosed(&err)
	name := base.TableName(t.Num)
	opts.SeqShift = t.SeqShift
	file, err := f.openFile(name, t.Size, vfs.CatTable)
	if err != nil {
		return nil, err
	}
	r, err := table.Open(file, t.Size, name, opts)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(agree("salt of a table", r.Properties().Salt, t.Salt),
		agree("hash seed of a table", r.HashSeed(), f.opts.HashSeed)); err != nil {
		_ = r.Close() // it was only opened; the mismatch says more
		return nil, base.InFile(err, name)
	}
	return r, nil
}

// agree returns corruption if a file has another number than the manifest.
func agree(what string, got, want uint64) error {
	if got == want {
		return nil
	}
	return base.Corrupt(-1, what, fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", want))
}

// OpenValues is Open for a value file.
func (f *Files) OpenValues(v *manifest.ValueFile) (_ *values.Reader, err error) {
	defer f.orClosed(&err)
	name := base.ValueName(v.File)
	file, err := f.openFile(name, v.Size, vfs.CatValue)
	if err != nil {
		return nil, err
	}
	return values.Open(file, v.Size, v.Num, v.Salt, name)
}

// closed returns an error if the database is closed.
func (f *Files) closed() error {
	if f.opts.Closed == nil {
		return nil
	}
	return f.opts.Closed()
}

// orClosed replaces an error by that of Options.Closed once the database is closed.
func (f *Files) orClosed(err *error) {
	if *err == nil {
		return
	}
	if closed := f.closed(); closed != nil {
		*err = closed
	}
}

// openMapped is OpenValues for the shared reader.
func (f *Files) openMapped(v *manifest.ValueFile) (*values.Reader, error) {
	if err := f.closed(); err != nil {
		return nil, err
	}
	r, err := f.OpenValues(v)
	if err != nil {
		return nil, err
	}
	r.Gauge().Init(f.opts.Used)
	if f.opts.MappedOnly && !f.opts.KeepsValues {
		err = r.MappedOnly(func() (vfs.File, error) { return f.reopen(v) })
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// reopen opens a value file again, temporarily.
func (f *Files) reopen(v *manifest.ValueFile) (_ vfs.File, err error) {
	if err := f.closed(); err != nil {
		return nil, err
	}
	defer f.orClosed(&err)
	return f.openFile(base.ValueName(v.File), v.Size, vfs.CatValue)
}

// openFile opens a file that must have the given size in bytes.
func (f *Files) openFile(name string, size int64, cat vfs.Category) (vfs.File, error) {
	file, err := f.opts.FS.Open(f.opts.FS.Join(f.opts.Dir, name), cat)
	if errors.Is(err, vfs.ErrNotExist) {
		return nil, &base.CorruptionError{File: name, Offset: -1, What: "file", Got: "none", Want: fmt.Sprintf("%d bytes", size)}
	}
	if err != nil {
		return nil, err
	}
	got, err := file.Size()
	if err == nil && got != size {
		err = base.InFile(base.Corrupt(-1, "size of the file", got, size), name)
	}
	if err != nil {
		_ = file.Close() // it was only opened; the known error says more
		return nil, err
	}
	return file, nil
}

// table returns the readable table for m. The caller holds mu.
func (f *Files) table(m *manifest.Table) *Table {
	h := f.tables[m.Num]
	if h == nil {
		h = newTableHandle(m)
		f.tables[m.Num] = h
	}
	return &Table{Table: m, tableHandle: h}
}

// valueFile returns the readable value file for m. The caller holds mu.
func (f *Files) valueFile(m *manifest.ValueFile) valueFile {
	h := f.values[m.File]
	if h == nil {
		h = new(valueHandle)
		f.values[m.File] = h
	}
	return valueFile{ValueFile: m, valueHandle: h}
}

// CacheBytes returns the size of the decoded blocks in the cache, in bytes.
func (f *Files) CacheBytes() int64 {
	if f.opts.Cache == nil {
		return 0
	}
	return f.opts.Cache.Stats().Bytes
}

// Drop closes the readers of tables that no reader can reach any more. It keeps the
// files.
func (f *Files) Drop(tables []base.FileNum) error { return drop(f, f.tables, tables) }

// DropValues is Drop for value files, given by the numbers in their file names.
func (f *Files) DropValues(files []base.FileNum) error { return drop(f, f.values, files) }

func drop[H interface{ close() error }](f *Files, handles map[base.FileNum]H, nums []base.FileNum) error {
	var errs []error
	for _, n := range nums {
		f.mu.Lock()
		h, ok := handles[n]
		delete(handles, n)
		f.mu.Unlock()
		if ok {
			errs = append(errs, h.close())
		}
	}
	return errors.Join(errs...)
}

// Close closes all readers.
func (f *Files) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, h := range f.tables {
		errs = append(errs, h.close())
	}
	for _, h := range f.values {
		errs = append(errs, h.close())
	}
	clear(f.tables)
	clear(f.values)
	return errors.Join(errs...)
}
