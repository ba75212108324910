package values

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/stoatdb/stoat/internal/base"
)

// A ValueReader reads one value in parts, through the file and not through the mapping.
// A value of gigabytes takes the memory of one chunk and of the checksums. Each chunk
// is verified before any of it is returned.
type ValueReader struct {
	s    *source
	h    header
	at   int64  // offset of the record
	head []byte // header and key
	sums []byte
	// chunk holds the bytes of the value from chunkOff on. It holds the whole of a
	// value that is not chunked.
	chunk    []byte
	chunkOff int64
	pos      int64
}

var _ io.ReadSeeker = (*ValueReader)(nil)

// NewValueReader reads the value that p points to, which must be that of version seq of
// key.
func (r *Reader) NewValueReader(p Pointer, key []byte, seq base.SeqNum) (*ValueReader, error) {
	v, err := r.finder()
	if err != nil {
		return nil, err
	}
	at, err := v.place(p)
	if err != nil {
		return nil, r.inFile(err)
	}
	vr, err := r.valueOf(at, v.end, p, key, seq)
	if err != nil {
		return nil, r.inFile(err)
	}
	return vr, nil
}

// valueOf is valueAt for the record that p must point to, of version seq of key.
func (s *source) valueOf(at, end int64, p Pointer, key []byte, seq base.SeqNum) (*ValueReader, error) {
	v, err := s.valueAt(at, end)
	if err == nil && (v.h.size() != p.Length() || !v.h.is(p, key, seq, v.head)) {
		err = mismatch(at, &v.h, p, seq)
	}
	return v, err
}

// valueAt reads the record at offset at, which must not extend beyond end, except the
// chunks of a chunked value.
func (s *source) valueAt(at, end int64) (*ValueReader, error) {
	if end-at < headerSize {
		return nil, base.Corrupt(at, "length of a record's header", end-at, headerSize)
	}
	b := make([]byte, headerSize)
	if err := s.read(b, at); err != nil {
		return nil, err
	}
	h, err := decodeHeader(b, at, end)
	if err != nil {
		return nil, err
	}
	vr := &ValueReader{s: s, h: h, at: at}
	if h.chunked() {
		return vr, vr.openChunked()
	}
	return vr, vr.openWhole()
}

func (v *ValueReader) openWhole() error {
	rec, h, err := v.s.readRecord(v.at, v.h.size())
	if err != nil {
		return err
	}
	v.head = rec[:h.valueOff()]
	v.chunk = rec[h.valueOff():h.valueEnd()]
	if h.compressed() {
		v.chunk, err = h.decode(v.chunk, v.at, nil)
	}
	return err
}

func (v *ValueReader) openChunked() error {
	head, tail := make([]byte, v.h.valueOff()), make([]byte, v.h.size()-v.h.valueEnd())
	tailOff := v.at + v.h.valueEnd()
	if err := v.s.read(head, v.at); err != nil {
		return err
	}
	if err := v.s.read(tail, tailOff); err != nil {
		return err
	}
	if err := checkSum(headSum(v.s.salt, v.at, head, tail, tailOff), v.h.sum, v.at, "checksum of a value's record"); err != nil {
		return err
	}
	if err := v.h.checkPadding(tail, v.at); err != nil {
		return err
	}
	v.head, v.sums = head, tail[alignUp(v.h.valueEnd())-v.h.valueEnd():]
	v.chunkOff = v.Size() // no chunk is loaded
	return nil
}

// Size returns the length of the value.
func (v *ValueReader) Size() int64 { return int64(v.h.valueLen) }

// Read reads from the current position.
func (v *ValueReader) Read(p []byte) (int, error) {
	if v.pos >= v.Size() {
		return 0, io.EOF
	}
	if v.pos < v.chunkOff || v.pos >= v.chunkOff+int64(len(v.chunk)) {
		if err := v.load(v.pos / chunkSize); err != nil {
			return 0, v.s.inFile(err)
		}
	}
	n := copy(p, v.chunk[v.pos-v.chunkOff:])
	v.pos += int64(n)
	return n, nil
}

// Check reads and verifies the rest of the value.
func (v *ValueReader) Check() error {
	for i := range v.h.chunks() {
		if err := v.load(i); err != nil {
			return v.s.inFile(err)
		}
	}
	return nil
}

// load reads and verifies chunk i.
func (v *ValueReader) load(i int64) error {
	off := i * chunkSize
	if v.chunk == nil {
		v.chunk = make([]byte, chunkSize)
	}
	// The chunk counts as not loaded until it is verified.
	v.chunkOff = v.Size()
	chunk := v.chunk[:cap(v.chunk)][:min(chunkSize, v.Size()-off)]
	at := v.at + v.h.valueOff() + off
	if err := v.s.read(chunk, at); err != nil {
		return err
	}
	if err := checkSum(partSum(v.s.salt, chunk, at), binary.LittleEndian.Uint64(v.sums[sumSize*i:]), at, "checksum of a part of a value"); err != nil {
		return err
	}
	v.chunk, v.chunkOff = chunk, off
	return nil
}

var (
	errSeek   = errors.New("values: seek before the start of the value")
	errWhence = errors.New("values: seek with an unknown whence")
)

// Seek sets the position.
func (v *ValueReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += v.pos
	case io.SeekEnd:
		offset += v.Size()
	default:
		return v.pos, errWhence
	}
	if offset < 0 {
		return v.pos, errSeek
	}
	v.pos = offset
	return offset, nil
}

// readRecord reads and verifies the record of length n at offset at. The caller has
// checked that it lies within the file.
func (s *source) readRecord(at, n int64) ([]byte, header, error) {
	if n > math.MaxInt {
		return nil, header{}, ErrTooLarge // larger than this machine can address
	}
	rec := make([]byte, n)
	if err := s.read(rec, at); err != nil {
		return nil, header{}, err
	}
	h, err := decodeHeader(rec, at, at+n)
	if err != nil {
		return nil, h, err
	}
	if h.size() != n {
		return nil, h, base.Corrupt(at, "length of a record", h.size(), n)
	}
	return rec, h, h.checkRecord(s.salt, at, rec)
}
