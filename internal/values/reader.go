package values

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/internal/vfs"
)

// A source is what all ways of reading a file share.
type source struct {
	file vfs.File
	name string
	fileHeader
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
	mapping       sync.Mutex // held by who makes the mapping, or reopens the file
	reopen        func() (vfs.File, error)
	parts         *source // reads values in parts, if the file was reopened for it
}

// A view is the mapping of a file and what is known of it.
type view struct {
	data  []byte
	end   int64 // of the records
	num   base.FileNum
	marks marks
	remap remap
	m     vfs.Mapping
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
	if r.reopen == nil {
		return v, nil
	}
	err = r.file.Close()
	r.file = nil
	return v, r.inFile(err)
}

// MappedOnly makes the reader close the file once it is mapped, so that a
// database of many files does not need as many descriptors. reopen opens it
// again when somebody reads a value in parts. It is called before all reading.
func (r *Reader) MappedOnly(reopen func() (vfs.File, error)) { r.reopen = reopen }

// byParts returns what reads values through the file.
func (r *Reader) byParts() (*source, error) {
	if r.reopen == nil {
		return &r.source, nil
	}
	r.mapping.Lock()
	defer r.mapping.Unlock()
	if r.parts == nil {
		file, err := r.reopen()
		if err != nil {
			return nil, err
		}
		r.parts = &source{file: file, name: r.name, fileHeader: r.fileHeader}
	}
	return r.parts, nil
}

func (r *Reader) mapFile() (*view, error) {
	f := &r.foot
	m, err := r.file.Map(f.size)
	if err != nil {
		return nil, err
	}
	v := &view{data: m.Bytes(), end: f.recordsEnd, num: r.num, m: m}
	if err = v.open(f); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	v.marks = newMarks(f.shortest, f.recordsEnd)
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
	if err := v.m.Populate(at, n); err != nil {
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
	r.mapping.Lock()
	defer r.mapping.Unlock()
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	if r.parts != nil {
		err = errors.Join(err, r.parts.file.Close())
	}
	return err
}
