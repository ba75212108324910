package values

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/vfs"
)

// A source is what all ways of reading a file share.
type source struct {
	file   vfs.File                 // nil if it is opened for each use
	reopen func() (vfs.File, error) // then
	name   string
	fileHeader
}

// use runs fn with the file.
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

// read fills b with what lies at offset at.
func (s *source) read(b []byte, at int64) error {
	return s.use(func(f vfs.File) error { return readFull(f, b, at) })
}

// inFile names the file in an error. That nothing is wrong costs nothing.
func (s *source) inFile(err error) error {
	if err == nil {
		return nil
	}
	return base.InFile(err, s.name)
}

// A Reader reads a sealed file. Any number of goroutines may use one.
//
// Reads go through a read-only mapping, which is made at the first of them,
// and copy nothing. A record is verified when it is first touched, and fetched
// by a system call at that moment, so that cold data costs a goroutine a
// system call and not the processor a page fault.
type Reader struct {
	v     atomic.Pointer[view]
	gauge residency.Gauge
	source
	foot footer
	// next is where the record ends that was fetched last, and fetched what
	// has been fetched with it.
	next, fetched atomic.Int64
	mapping       sync.Mutex // held by who makes the mapping
}

// A view is the mapping of a file and what is known of it.
type view struct {
	data  []byte
	end   int64 // of the records
	num   base.FileNum
	marks marks
	remap remap
	m     vfs.Mapping
	// advised is what Ahead asked for last.
	advised advice
}

// Open opens the sealed file in file, which has the given size, and takes over
// the file: Close closes it, also after an error of Open. num and salt are
// what the file should have in its header; name is what errors call it.
func Open(file vfs.File, size int64, num base.FileNum, salt uint64, name string) (*Reader, error) {
	r := &Reader{source: source{file: file, name: name, fileHeader: fileHeader{salt: salt, num: num}}}
	if err := r.open(size); err != nil {
		// The first error is the one that tells what happened.
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

// Properties tell what is in the file.
func (r *Reader) Properties() Properties { return r.foot.properties() }

// firstRead is how much is read for the first key. Most are shorter.
const firstRead = 256

// FirstKey returns the key of the record that comes first in the file, by a read
// of its own. It was not verified.
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

// mapped returns the view of the file, which it makes if there is none.
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

// MappedOnly makes the reader close the file, so that a database of many files
// does not need as many descriptors. reopen opens it again for as long as it is
// mapped or a part of a value is read. It is called before all reading.
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
	v := &view{data: m.Bytes(), end: f.recordsEnd, num: r.num, m: m}
	if err = v.open(f); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	v.marks.init(f.shortest, f.recordsEnd)
	return v, nil
}

// open takes what of the mapping is verified as a whole.
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
	section := v.data[at : at+n]
	if err := checkSum(partSum(f.salt, section, at), f.remapSum, at, "checksum of a remap"); err != nil {
		return err
	}
	var err error
	v.remap, err = decodeRemap(f.remap, section, at, f.recordsEnd)
	return err
}

// place returns where the record of p lies.
func (v *view) place(p Pointer) (int64, error) {
	at := p.Offset
	if v.remap.count > 0 {
		to, ok := v.remap.find(at)
		if !ok {
			return 0, base.Corrupt(at, "pointer into a rewritten file", "a record that was not live", "a live one")
		}
		at = to
	}
	if !v.holds(at, p.Length) {
		return 0, base.Corrupt(at, "pointer to a value", fmt.Sprintf("%d bytes", p.Length), fmt.Sprintf("a record before %d", v.end))
	}
	return at, nil
}

// holds reports whether a record of so many bytes may be at offset at.
func (v *view) holds(at, length int64) bool {
	return at >= fileHeaderSize && at <= v.end && at%unit == 0 && length >= recordMin && length <= v.end-at
}

// Close ends all reading. Nothing that was read without a copy may be touched
// afterwards.
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
