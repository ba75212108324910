package values

import (
	"encoding/binary"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// A Stream appends a value in parts, when its length or its version is not known
// before its end. It takes the memory of one chunk. It does not compress the value.
//
// The header, which makes it a record, is written last. So a stream that a crash cuts
// short is no record.
type Stream struct {
	w    *Writer
	key  []byte
	buf  []byte // the unwritten end, at most a chunk and a byte
	h    header
	at   int64 // offset of the record
	sums []byte
	n    int64 // number of bytes before buf
	err  error
}

// Stream begins a value. Nothing else may be appended to the file until Finish or
// Abort.
func (w *Writer) Stream(key []byte) (*Stream, error) {
	if err := w.checkAppend(key, 0); err != nil {
		return nil, err
	}
	w.stream = true
	return &Stream{
		w: w, key: append([]byte(nil), key...), at: w.out.pos(), h: header{keyLen: uint32(len(key))},
		buf: make([]byte, 0, chunkSize+1),
	}, nil
}

// Write appends p to the value.
func (s *Stream) Write(p []byte) (int, error) {
	if s.n+int64(len(s.buf)) > base.MaxValueSize-int64(len(p)) {
		s.err = ErrTooLarge
	}
	done := 0
	for s.err == nil && done < len(p) {
		n := min(len(p)-done, s.room())
		s.buf = append(s.buf, p[done:done+n]...)
		done += n
	}
	return done, s.err
}

// ReadFrom appends everything that r returns, to its end.
func (s *Stream) ReadFrom(r io.Reader) (int64, error) {
	start := s.n + int64(len(s.buf))
	for s.err == nil {
		room := s.room()
		n, err := r.Read(s.buf[len(s.buf) : len(s.buf)+room])
		s.buf = s.buf[:len(s.buf)+n]
		if s.n+int64(len(s.buf)) > base.MaxValueSize {
			s.err = ErrTooLarge
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			s.err = err
		}
	}
	return s.n + int64(len(s.buf)) - start, s.err
}

// room returns how many bytes fit the buffer, at least one. It writes a chunk only when
// one more byte is there: a value of exactly one chunk is not chunked.
func (s *Stream) room() int {
	if len(s.buf) > chunkSize {
		s.emit()
	}
	return chunkSize + 1 - len(s.buf)
}

// emit writes the next chunk and keeps the rest in the buffer.
func (s *Stream) emit() {
	out := &s.w.out
	if s.n == 0 {
		out.write(s.h.append(nil)) // a placeholder; seal writes the final header
		out.write(s.key)
	}
	chunk := s.buf[:min(len(s.buf), chunkSize)]
	s.sums = binary.LittleEndian.AppendUint64(s.sums, partSum(s.w.opts.Salt, chunk, out.pos()))
	out.write(chunk)
	s.n += int64(len(chunk))
	s.buf = s.buf[:copy(s.buf, s.buf[len(chunk):])]
	s.err = out.err
}

// Finish ends the value as version seq of its key.
func (s *Stream) Finish(seq base.SeqNum) (Pointer, error) {
	invariant.Check(s.w.stream, "a stream ends once")
	if s.err != nil {
		s.Abort()
		return Pointer{}, s.err
	}
	s.w.stream = false
	s.h.seq = seq
	if s.n == 0 && len(s.buf) <= chunkSize {
		s.h.valueLen, s.h.storedLen = uint32(len(s.buf)), uint32(len(s.buf))
		return s.w.appendRecord(s.h, s.key, s.buf)
	}
	for len(s.buf) > 0 {
		s.emit()
	}
	s.h.valueLen, s.h.storedLen = uint32(s.n), uint32(s.n)
	return s.seal()
}

// seal writes the part behind a chunked value, and then its header.
func (s *Stream) seal() (Pointer, error) {
	out, h := &s.w.out, &s.h
	tail := append(append([]byte(nil), zeros[:alignUp(h.valueEnd())-h.valueEnd()]...), s.sums...)
	out.write(tail)
	out.flush()
	head := append(h.append(nil), s.key...)
	h.sum = headSum(s.w.opts.Salt, s.at, head, tail, s.at+h.valueEnd())
	binary.LittleEndian.PutUint64(head, h.sum)
	out.putAt(head[:headerSize], s.at)
	return s.w.count(*h, s.at)
}

// Abort removes what was written of the value.
func (s *Stream) Abort() {
	if s.w.stream {
		s.w.stream = false
		s.w.out.rewind(s.at)
	}
}
