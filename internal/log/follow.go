package log

import (
	"crypto/cipher"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// A Follower reads the transactions of the log from spans of the manifest on, while
// another process may write it. The writer frees segments that the newest manifest does
// not name any more, and uses their files again. The follower then finds nothing more, or
// an error, and never a transaction of the later use: the salt of that use is another one.
// So a caller that finds nothing, or an error, reads the manifest again before it believes
// that.
type Follower struct {
	o     Options
	spans []base.LogSpan // what is left: the first one is being read

	ref  base.SegmentRef
	file vfs.File // nil before the segment is open
	aead cipher.AEAD
	r    *record.Reader
	// closed says that the writer closed the log behind the last transaction.
	closed bool
	// end is where a sealed span ends in this segment, or -1.
	end int64
	// sealed says that the span is sealed: all frames up to its end were written.
	sealed bool
}

// Follow returns a follower at the start of spans.
func Follow(o Options, spans []base.LogSpan) *Follower {
	f := &Follower{o: o, spans: spans}
	if len(spans) > 0 {
		f.ref = spans[0].First
	}
	return f
}

// Next returns the next transaction, which is valid until the next call. It returns io.EOF
// if there is none yet.
func (f *Follower) Next() (payload []byte, err error) {
	for len(f.spans) > 0 {
		if f.file == nil {
			if err := f.open(); err != nil {
				return nil, err
			}
		}
		rec, err := f.r.NextRecord()
		switch {
		case err == io.EOF && len(f.spans) > 1 && f.r.Offset() == f.end:
			if err := f.checkSeal(); err != nil {
				return nil, f.o.inFile(err, "read", f.ref.File)
			}
			f.spans = f.spans[1:]
			f.leave(f.spans[0].First)
		case err == io.EOF:
			return nil, io.EOF
		case err != nil:
			return nil, f.o.inFile(err, "read", f.ref.File)
		case rec.Kind == record.Whole:
			return rec.Payload, nil
		case rec.Kind == record.Close:
			f.closed = true
		case rec.Kind == record.Next:
			next, err := decodeSuccessor(rec.Payload, rec.Offset, f.ref.Number)
			if err != nil {
				return nil, f.o.inFile(err, "read", f.ref.File)
			}
			f.leave(next)
		}
	}
	return nil, io.EOF
}

// open opens the segment.
func (f *Follower) open() error {
	file, h, err := f.o.openSegment(f.ref)
	if err != nil {
		return err
	}
	s, size := f.spans[0], h.size
	f.file, f.aead, f.end, f.sealed = file, h.aead, -1, s.Sealed
	if s.Sealed && s.EndNumber == f.ref.Number {
		f.end, size = s.End, min(size, s.End)
	}
	f.r = record.NewReader(file, size, f.ref.Salt, h.aead)
	f.r.Follow()
	return nil
}

// leave goes to another segment.
func (f *Follower) leave(next base.SegmentRef) {
	f.Close()
	f.ref, f.closed = next, false
}

// Within reports whether spans, which the manifest has now, still name the segment that the
// follower reads, and have no span after its last one. If not, the writer freed the
// segment, or another writer has begun a span.
func (f *Follower) Within(spans []base.LogSpan) bool {
	if len(f.spans) == 0 || len(spans) < len(f.spans) {
		return len(spans) == len(f.spans)
	}
	s := spans[len(spans)-len(f.spans)] // the one being read, if there is no later one
	if mutant.On(mutant.FollowFirstSpan) {
		s = spans[0]
	}
	switch {
	case s.Sealed && f.ref.Number > s.EndNumber:
		return false
	case f.ref.Number == s.First.Number:
		return f.ref == s.First
	}
	return f.ref.Number > s.First.Number
}

// Newest reports whether the follower reads the newest span that it knows.
func (f *Follower) Newest() bool { return len(f.spans) < 2 }

// Damaged returns an error if what follows is damaged: a frame that was once written does
// not verify. Next takes such a frame for one that is about to come. The manifest must
// still name the segment after the call; otherwise the error means nothing.
func (f *Follower) Damaged() error {
	if f.file == nil || f.closed && !f.sealed || mutant.On(mutant.FollowUndamaged) {
		return nil
	}
	if err := f.damaged(); err != nil {
		return f.o.inFile(err, "read", f.ref.File)
	}
	return nil
}

func (f *Follower) damaged() error {
	if f.r.Offset() == f.end {
		return f.checkSeal()
	}
	size, err := f.file.Size()
	if err != nil {
		return err
	}
	if f.end >= 0 {
		size = min(size, f.end)
	}
	err = f.missing(size)
	if err == nil {
		return nil
	}
	// The writer may have written the frame after it was read, and later ones before they
	// were read.
	r := record.ContinueReader(f.file, size, f.ref.Salt, f.aead, f.r.Offset(), f.r.Chain())
	r.Follow()
	if _, again := r.Next(); again == nil {
		return nil
	}
	return err
}

// missing returns an error if a frame is lost. That is so if there is no frame where the
// next one is expected, but a later one proves that it was written. The later one is in
// this segment, or in a later segment, to which only the last frame of this one leads. In a
// later segment, only a frame with a durable field above 0 proves it.
func (f *Follower) missing(size int64) error {
	r := record.ContinueReader(f.file, size, f.ref.Salt, f.aead, f.r.Offset(), f.r.Chain())
	r.Demand(f.sealed)
	_, err := r.Next()
	switch {
	case err == io.EOF && f.sealed:
		return base.Corrupt(f.r.Offset(), "bytes of the log", size-f.r.Offset(), "another frame")
	case err != io.EOF:
		return err
	}
	used, err := f.o.usedAfter(f.ref.Number)
	switch torn := r.Torn(); {
	case err != nil || !used:
		return err
	case torn != nil:
		return torn
	}
	return base.Corrupt(f.r.Offset(), "next segment", "none", "a frame that names it")
}

// checkSeal returns an error unless the span that ends here is the one that was sealed.
func (f *Follower) checkSeal() error {
	if got, want := f.r.Chain(), f.spans[0].EndChain; got != want {
		return base.Corrupt(f.end, "chain at the seal", fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", want))
	}
	return nil
}

// Close closes the file. No call may follow, except another Close.
func (f *Follower) Close() {
	if f.file != nil {
		closeQuietly(f.file)
		f.file, f.r = nil, nil
	}
}
