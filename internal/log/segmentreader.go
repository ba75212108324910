package log

import (
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// A SegmentReader reads the transactions of one segment, beside the writer that still
// appends to it. The writer may free the segment and use its file again meanwhile. The
// reader then returns an error, and never a transaction of the later use: the salt of
// that use is another one.
type SegmentReader struct {
	o    Options
	ref  base.SegmentRef
	file vfs.File // nil after Rest
	head openHeader
	at   boundary       // behind the last record
	r    *record.Reader // nil at the start, and after its end
	end  int64          // of r
}

// ReadSegment opens the segment that ref names.
func ReadSegment(o Options, ref base.SegmentRef) (*SegmentReader, error) {
	f, h, err := o.openSegment(ref)
	if err != nil {
		return nil, err
	}
	return &SegmentReader{o: o, ref: ref, file: f, head: h, at: startOf(ref.Salt)}, nil
}

// Next returns the next transaction below limit, which is valid until the next call. It
// returns io.EOF if there is none. A later call with a higher limit may find one.
func (s *SegmentReader) Next(limit int64) (payload []byte, err error) {
	if s.file == nil {
		if s.file, s.head, err = s.o.openSegment(s.ref); err != nil {
			return nil, err
		}
	}
	for {
		payload, err = s.read(limit)
		if err != io.EOF || s.r != nil || min(limit, s.head.size) <= s.end {
			return payload, err
		}
	}
}

// read returns the next transaction that was below the limit when r was made.
func (s *SegmentReader) read(limit int64) (payload []byte, err error) {
	if s.r == nil {
		s.end = min(limit, s.head.size)
		s.r = record.ContinueReader(s.file, s.end, s.ref.Salt, s.head.aead, s.at.offset, s.at.chain)
		s.r.Demand(true) // everything below limit was written
	}
	for {
		rec, err := s.r.NextRecord()
		switch {
		case err == io.EOF:
			s.r = nil
			return nil, io.EOF
		case err != nil:
			return nil, s.o.inFile(err, "read", s.ref.File)
		case rec.Kind == record.Next || rec.Kind == record.Close:
			return nil, io.EOF
		case rec.Kind == record.Whole:
			s.at = boundary{offset: rec.End, chain: rec.Checksum}
			return rec.Payload, nil
		}
	}
}

// Rest closes the file until the next call of Next, which goes on where the last one ended.
func (s *SegmentReader) Rest() {
	if s.file != nil {
		closeQuietly(s.file)
		s.file, s.r = nil, nil
	}
}
