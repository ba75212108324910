package values

import (
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/scratch"
	"github.com/stoatdb/stoat/vfs"
)

// windowSize is the size in bytes of the reads of a scan. It holds any record that is
// not chunked.
const windowSize = scratch.Size

// A window is the part of the file that was last read.
type window struct {
	file vfs.File
	buf  []byte
	off  int64
	// arena holds the last decoded value.
	arena codec.Arena
}

// read returns [at, at+n), which lies before end. If it must read the file, it reads up
// to ahead bytes. The result is valid until the next call.
func (w *window) read(at, n, end, ahead int64) ([]byte, error) {
	if from := at - w.off; from >= 0 && from+n <= int64(len(w.buf)) {
		return w.buf[from : from+n], nil
	}
	size := min(max(n, ahead), windowSize, end-at)
	if int64(cap(w.buf)) < size {
		w.release()
		w.buf = scratch.Grow(nil, int(size))
	}
	w.buf = w.buf[:size]
	if err := readFull(w.file, w.buf, at); err != nil {
		w.buf = w.buf[:0]
		return nil, err
	}
	w.off = at
	return w.buf[:n], nil
}

// release frees the buffer of the window.
func (w *window) release() {
	scratch.Release(w.buf)
	w.buf = nil
}

// walk calls visit for the records in [fileHeaderSize, end) in order, each verified. It
// stops at the first error.
func (s *source) walk(end int64, stop func() error, visit func(at int64, h header)) error {
	return s.use(func(file vfs.File) error {
		w := window{file: file}
		defer w.release()
		for at := int64(fileHeaderSize); at < end; {
			h, err := s.walkOne(&w, at, end, stop)
			if err != nil {
				return err
			}
			visit(at, h)
			at += h.size()
		}
		return nil
	})
}

func (s *source) walkOne(w *window, at, end int64, stop func() error) (header, error) {
	if err := stop(); err != nil {
		return header{}, err
	}
	b, err := w.read(at, min(headerSize, end-at), end, windowSize)
	if err != nil {
		return header{}, err
	}
	h, err := decodeHeader(b, at, end)
	if err != nil {
		return h, err
	}
	if h.chunked() {
		return h, s.verifyChunked(at, end, stop)
	}
	if b, err = w.read(at, h.size(), end, windowSize); err != nil {
		return h, err
	}
	if err := h.checkRecord(s.salt, at, b); err != nil || !h.compressed() {
		return h, err
	}
	w.arena.Reset()
	_, err = h.decode(b[h.valueOff():h.valueEnd()], at, &w.arena)
	return h, err
}

// verifyChunked reads and verifies the chunked record at offset at.
func (s *source) verifyChunked(at, end int64, stop func() error) error {
	v, err := s.valueAt(at, end)
	if err != nil {
		return err
	}
	for i := range v.h.chunks() {
		if err := stop(); err != nil {
			return err
		}
		if err := v.load(i); err != nil {
			return err
		}
	}
	return nil
}
