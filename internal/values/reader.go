package values

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/vfs"
)

// A source is the common part of all ways to read a file.
type source struct {
	file   vfs.File                 // nil if each use opens the file
	reopen func() (vfs.File, error) // set if file is nil
	name   string
	fileHeader
}

// use calls fn with the file.
func (s *source) use(fn func(vfs.File) error) error {
	if s.file != nil {
		return fn(s.file)
	}
	file, err := s.reopen()
	if err != nil {
		return err
	}
	return errors.Join(fn(file), file.Close())
}

// read fills b from offset at.
func (s *source) read(b []byte, at int64) error {
	return s.use(func(f vfs.File) error { return readFull(f, b, at) })
}

// inFile adds the file's name to an error. A nil error costs nothing.
func (s *source) inFile(err error) error {
	if err == nil {
		return nil
	}
	return base.InFile(err, s.name)
}

// A Reader reads a sealed file. It is safe for concurrent use.
//
// Reads use a read-only mapping, made at the first read, and copy nothing. The first
// access to a record fetches it by a system call and verifies it. So cold data costs a
// system call, which blocks only the goroutine, and not a page fault, which blocks the
// processor.
type Reader struct {
	v     atomic.Pointer[view] // set under mapping
	gauge residency.Gauge

	// Immutable once reading has begun.

	source
	foot footer

	// next is the end of the last fetched record. fetched is the end of what was
	// fetched with it.
	next, fetched atomic.Int64

	mapping sync.Mutex // held while the mapping is made
}

// A view is the mapping of a file with the state of its records.
type view struct {
	r     *Reader // whose mapping it is
	data  []byte
	end   int64 // of the records
	num   base.FileNum
	marks marks
	drops atomic.Uint64 // how many times DropPages has run
	remap remap
	m     vfs.Mapping
	// sealed is m if the file is sealed.
	sealed *seal.Mapping
	// advised is the last request of Ahead.
	advised advice
}

// Open opens the sealed file in file, which has the given size. The reader takes over
// the file: Close closes it, and so does a failed Open. num and salt are the expected
// ones of the header. Errors call the file name.
func Open(file vfs.File, size int64, num base.FileNum, salt uint64, name string) (*Reader, error) {
	r := &Reader{source: source{file: file, name: name, fileHeader: fileHeader{salt: salt, num: num}}}
	if err := r.open(size); err != nil {
		// The first error says what happened.
		_ = file.Close()
		return nil, fmt.Errorf("open value file: %w", base.InFile(err, name))
	}
	return r, nil
}

func (r *Reader) open(size int64) error {
	if err := readHeader(r.file, r.fileHeader); err != nil {
		return err
	}
	tail := make([]byte, min(max(size, 0), footerSize))
	if err := readFull(r.file, tail, size-int64(len(tail))); err != nil {
		return err
	}
	var err error
	if r.foot, err = decodeFooter(tail, size); err != nil {
		return err
	}
	return r.foot.fileHeader.check(r.fileHeader)
}

// Properties describes the contents of the file.
func (r *Reader) Properties() Properties { return r.foot.properties() }

// Salt returns the salt in the header of the file.
func (r *Reader) Salt() uint64 { return r.salt }

// firstRead is the number of bytes to read for the first key. Most keys are shorter.
const firstRead = 256

// FirstKey returns the key of the first record in the file. It reads the file directly
// and does not verify the key.
func (r *Reader) FirstKey() ([]byte, error) {
	const at = fileHeaderSize
	b := make([]byte, min(firstRead, r.foot.recordsEnd-at))
	err := r.read(b, at)
	var h header
	if err == nil {
		h, err = decodeHeader(b, at, r.foot.recordsEnd)
	}
	if end := h.valueOff(); err == nil && end > int64(len(b)) {
		b = make([]byte, end)
		err = r.read(b, at)
	}
	if err != nil {
		return nil, r.inFile(err)
	}
	return b[headerSize:h.valueOff()], nil
}

// mapped returns the view of the file. It makes the view if there is none.
func (r *Reader) mapped() (*view, error) {
	if v := r.v.Load(); v != nil {
		return v, nil
	}
	r.mapping.Lock()
	defer r.mapping.Unlock()
	if v := r.v.Load(); v != nil {
		return v, nil
	}
	v, err := r.mapFile()
	if err != nil {
		return nil, r.inFile(err)
	}
	r.v.Store(v)
	return v, nil
}

// finder returns a view that finds records. It has no mapping if the file has no remap.
func (r *Reader) finder() (*view, error) {
	if r.foot.remap.count == 0 {
		return &view{end: r.foot.recordsEnd}, nil
	}
	return r.mapped()
}

// MappedOnly makes the reader close the file, so that a database of many files needs
// fewer descriptors. reopen opens the file again while it is being mapped or a part of
// a value is read. The caller must call MappedOnly before the first read.
func (r *Reader) MappedOnly(reopen func() (vfs.File, error)) error {
	err := r.file.Close()
	r.file, r.reopen = nil, reopen
	return r.inFile(err)
}

func (r *Reader) mapFile() (*view, error) {
	f := &r.foot
	var m vfs.Mapping
	err := r.use(func(file vfs.File) (err error) {
		m, err = file.Map(f.size)
		return err
	})
	if err != nil {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
		return nil, err
	}
	v := &view{r: r, data: m.Bytes(), end: f.recordsEnd, num: r.num, m: m}
	v.sealed, _ = m.(*seal.Mapping)
	if err = v.open(f); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	v.marks.init(f.shortest, f.recordsEnd)
	return v, nil
}

// open verifies and decodes the remap.
func (v *view) open(f *footer) error {
	if int64(len(v.data)) != f.size {
		return base.Corrupt(0, "length of the mapping", len(v.data), f.size)
	}
	if f.remap.count == 0 {
		return nil
	}
	at, n := f.recordsEnd, f.remap.size()
	if _, err := v.m.Populate(at, n); err != nil {
		return err
	}
	var err error
	v.remap, err = f.decodeRemap(v.data[at : at+n])
	return err
}

// place returns the offset of the record of p.
func (v *view) place(p Pointer) (int64, error) {
	at := p.Offset
	if v.remap.count > 0 {
		to, ok := v.remap.find(at)
		if !ok {
			return 0, base.Corrupt(at, "pointer into a rewritten file", "a record that was not live", "a live one")
		}
		at = to
	}
	if !v.holds(at, p.Length()) {
		return 0, base.Corrupt(at, "pointer to a value", fmt.Sprintf("%d bytes", p.Length()), fmt.Sprintf("a record before %d", v.end))
	}
	return at, nil
}

// holds reports whether a record of that length may be at offset at.
func (v *view) holds(at, length int64) bool {
	return at >= fileHeaderSize && at <= v.end && at%unit == 0 && length >= recordMin && length <= v.end-at
}

// Close closes the reader. After it the caller must not touch values that were read
// without a copy.
func (r *Reader) Close() error {
	var err error
	if v := r.v.Swap(nil); v != nil {
		err = v.m.Close()
	}
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	return err
}
