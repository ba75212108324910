package log

import (
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// A replay is one run of Recover.
type replay struct {
	o     *Options
	enter func(ref base.SegmentRef, size int64)
	apply func(payload []byte) error
	// noPayload says that apply gets no payloads. A transaction of any size then
	// takes no more memory than a frame.
	noPayload bool
	r         Recovered
	// torn says why the newest span did not end in order, or is nil. It becomes
	// the error if the missing part turns out to have been durable.
	torn error
	// last is the number of the last segment of the newest span.
	last uint64
}

// A segmentReplay is what the replay found in one segment.
type segmentReplay struct {
	ref  base.SegmentRef
	size int64
	// bounds are the places where the segment can be sealed.
	bounds boundaries
	// end lies behind the last record.
	end boundary
	// next is the successor that the segment names, or nil.
	next *base.SegmentRef
	// begun says that a frame of the segment, even behind a hole, says that the segments
	// before it are durable.
	begun bool
	// torn says why the frames did not end in order, or is nil.
	torn error
}

// span replays one span and seals it if it is open.
func (p *replay) span(s *base.LogSpan) error {
	// The newest segments. All before the first of them is known to be durable.
	var unproven []*segmentReplay
	for ref := s.First; ; {
		limit := int64(-1)
		if s.Sealed && ref.Number == s.EndNumber {
			limit = s.End
		}
		st, err := p.segment(ref, limit)
		if err != nil {
			return err
		}
		p.r.live = append(p.r.live, segmentFile{number: ref.Number, file: ref.File, size: st.size})
		p.r.next = max(p.r.next, ref.Number)
		if st.begun {
			unproven = nil
		}
		unproven = append(unproven, &st)
		switch {
		case limit >= 0:
			return p.checkSeal(s, &st)
		case st.next != nil:
			ref = *st.next
		case s.Sealed:
			return p.endsEarly(&st)
		default:
			p.seal(s, unproven)
			return nil
		}
	}
}

// segment replays the segment that ref names, up to limit. A negative limit
// means the end of its frames.
func (p *replay) segment(ref base.SegmentRef, limit int64) (segmentReplay, error) {
	f, h, err := p.o.openSegment(ref)
	if err != nil {
		return segmentReplay{}, err
	}
	defer closeQuietly(f)
	size := h.size
	p.enter(ref, size)
	start := startOf(ref.Salt)
	st := segmentReplay{ref: ref, size: size, bounds: boundaries{start}, end: start}
	if limit > size || (limit >= 0 && limit < record.Start) {
		return segmentReplay{}, p.o.inFile(base.Corrupt(limit, "seal", limit,
			fmt.Sprintf("%d to %d", record.Start, size)), "read", ref.File)
	}
	if limit < 0 {
		limit = size
	}
	if err := p.records(record.NewReader(f, limit, ref.Salt, h.aead), &st); err != nil {
		return segmentReplay{}, p.o.inFile(err, "read", ref.File)
	}
	return st, nil
}

// records replays the records of r into st.
func (p *replay) records(r *record.Reader, st *segmentReplay) error {
	defer func() { st.begun = r.Claimed() >= record.Start }()
	for {
		next := r.NextRecord
		if p.noPayload {
			next = r.PassRecord
		}
		rec, err := next()
		if err == io.EOF {
			if bad := r.Torn(); bad != nil {
				st.torn = p.o.inFile(bad, "read", st.ref.File)
			}
			return nil
		}
		if err != nil {
			return err
		}
		st.bounds.advance(rec.Durable)
		switch rec.Kind {
		case record.Close:
			return st.checkClose(&rec)
		case record.Next:
			next, err := decodeSuccessor(rec.Payload, rec.Offset, st.ref.Number)
			st.next = &next
			return err
		case record.Whole:
			if err := p.apply(rec.Payload); err != nil {
				return err
			}
			p.r.Records++
			st.end = boundary{offset: rec.End, chain: rec.Checksum, records: st.end.records + 1}
			st.bounds.add(st.end)
		}
	}
}

// checkClose checks that a close frame says that all records before it are durable, as a
// writer knows when it closes.
func (st *segmentReplay) checkClose(rec *record.Frame) error {
	if rec.Durable < st.end.offset {
		return base.Corrupt(rec.Offset, "durable mark of a close frame", rec.Durable,
			fmt.Sprintf("at least %d", st.end.offset))
	}
	return nil
}

// checkSeal compares the end of a sealed span with what the replay found there.
func (p *replay) checkSeal(s *base.LogSpan, st *segmentReplay) error {
	if st.end.offset != s.End {
		return p.endsEarly(st)
	}
	if st.end.chain != s.EndChain && !mutant.On(mutant.IgnoreSeal) {
		return p.o.inFile(base.Corrupt(s.End, "chain at the seal",
			fmt.Sprintf("%#x", st.end.chain), fmt.Sprintf("%#x", s.EndChain)), "read", st.ref.File)
	}
	return nil
}

// endsEarly returns the error for a segment that ends before its span does.
func (p *replay) endsEarly(st *segmentReplay) error {
	if mutant.On(mutant.IgnoreSeal) {
		return nil
	}
	if st.torn != nil {
		return st.torn
	}
	return p.o.inFile(base.Corrupt(st.end.offset, "end of the segment",
		"its last frame", "more frames before the seal"), "read", st.ref.File)
}

// seal ends the newest span at the last place proven to be durable, and notes the tails to
// carry from there. That place is in the first of the last segments: all before it is durable.
// No frame of the others says that the segments before them are.
func (p *replay) seal(s *base.LogSpan, last []*segmentReplay) {
	newest := last[len(last)-1]
	p.torn, p.last = newest.torn, newest.ref.Number
	at := last[0].bounds.seal()
	*s = sealedAt(s.First, last[0].ref.Number, at)
	for i, st := range last {
		p.r.unproven = append(p.r.unproven, st.ref)
		if i > 0 {
			at = startOf(st.ref.Salt)
		}
		t := tail{ref: st.ref, from: at, until: st.end.offset, records: st.end.records - at.records}
		if !t.empty() && (i == 0 || !mutant.On(mutant.CarryLosesSegments)) {
			p.r.carry = append(p.r.carry, t)
		}
	}
}

// unreferenced inspects the files that no span reached. They are free, unless
// they prove that a span once reached further.
func (p *replay) unreferenced(files []uint64) error {
	reached := make(map[uint64]bool, len(p.r.live))
	for _, f := range p.r.live {
		reached[f.file] = true
		p.r.nextFile = max(p.r.nextFile, f.file)
	}
	for _, file := range files {
		if file < foreign {
			p.r.nextFile = max(p.r.nextFile, file)
		}
		if reached[file] {
			continue
		}
		f := segmentFile{file: file}
		if err := p.inspect(&f); err != nil {
			return p.o.inFile(err, "read", file)
		}
		if f.number > 0 && file < foreign {
			p.r.free = append(p.r.free, f)
		} else {
			p.r.junk = append(p.r.junk, f)
		}
	}
	return nil
}

// foreign is a number that no log reaches. No log counts on from it, or from a higher one.
const foreign = 1 << 48

// inspect fills in what the header of an unreferenced file says, if it has one.
// It fails if the file holds frames that a span must have referred to.
func (p *replay) inspect(sf *segmentFile) error {
	f, err := p.o.FS.Open(p.o.path(sf.file), vfs.CatLog)
	if err != nil {
		return err
	}
	defer closeQuietly(f)
	if sf.size, err = f.Size(); err != nil {
		return err
	}
	headers, err := record.ReadHeaders(f, sf.size, record.TypeLog)
	if err != nil {
		return err
	}
	for _, h := range headers {
		if h.File != sf.file {
			continue
		}
		sf.number = max(sf.number, h.Number)
		if h.Number < foreign {
			p.r.next = max(p.r.next, h.Number)
		}
		if len(p.r.Spans) > 0 && h.Number < p.r.Spans[0].First.Number {
			continue
		}
		used, err := p.o.inUse(f, sf.size, h)
		switch {
		case err != nil:
			return err
		case mutant.On(mutant.IgnoreUnreferenced):
		case used && p.torn != nil && h.Number > p.last:
			return p.torn
		case used:
			return base.Corrupt(0, "segment in use", fmt.Sprintf("number %d", h.Number),
				"a reference from the manifest or from the segment before")
		}
	}
	return nil
}
