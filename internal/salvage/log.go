package salvage

import (
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/payload"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/record"
)

// A logReader sorts the entries of the log.
type logReader struct {
	s       *salvager
	entries []base.Entry
	bytes   int
	spilled []source
	// successors are segments that a segment before them named.
	successors map[uint64]base.SegmentRef // by file
	done       map[uint64]uint64          // the numbers of segments that were read, by file
	// last is the newest transaction of the segments that were read, 0 if a loss behind it was
	// reported.
	last      base.SeqNum
	deletions []rangedel.Deletion
}

// readLog returns sources of all entries of the log that are not known to be in tables.
func (s *salvager) readLog(files []uint64) ([]source, error) {
	r := &logReader{s: s, successors: map[uint64]base.SegmentRef{}, done: map[uint64]uint64{}}
	for _, span := range s.state.Spans {
		r.successors[span.First.File] = span.First
	}
	segments, headless, err := r.headers(files)
	if err != nil {
		return nil, err
	}
	for i := range segments {
		if _, err := r.read(&segments[i]); err != nil {
			return nil, err
		}
	}
	if err := r.readHeadless(headless); err != nil {
		return nil, err
	}
	r.unreached()
	if len(r.deletions) > 0 {
		s.deletions = rangedel.Merge(s.deletions, rangedel.Build(r.deletions))
	}
	all := r.spilled
	if len(r.entries) > 0 {
		all = append(all, r.sorted())
	}
	return s.reduce(all, true)
}

// read reads the records of a segment that verify, and returns how many frames there are.
func (r *logReader) read(g *segment) (frames int, err error) {
	r.done[g.file] = g.header.Number
	f, _, err := r.open(g.name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	aead, err := g.header.Open(r.s.sealer)
	if err != nil {
		r.s.report.loseFile(g.name, g.size, nil, nil, err)
		return 0, nil
	}
	r.s.report.Segments++
	in := record.NewReader(f, min(g.limit, g.size), g.header.Salt, aead)
	in.Demand(g.whole)
	return r.records(g, in)
}

// A gap is a part of a segment whose frames do not verify.
type gap struct {
	g     *segment
	at    int64 // -1 if there is none
	err   error
	after base.SeqNum // the last transaction before it, 0 if unknown
}

// lose reports a gap up to offset end. before is the first transaction behind it, 0 if
// unknown.
func (r *logReader) lose(p *gap, end int64, before base.SeqNum) {
	if p.at < 0 {
		return
	}
	if before == 0 {
		r.last = 0
	}
	text := "lost are transactions"
	if p.after > 0 {
		text += fmt.Sprintf(" after version %d", p.after)
	}
	if before > 0 {
		text += fmt.Sprintf(" before version %d", before)
	}
	err := base.InFile(p.err, p.g.name)
	if p.after > 0 && before == p.after+1 {
		r.s.noteOnce(err.Error())
	} else {
		r.s.report.lose(Loss{File: p.g.name, Offset: p.at, Length: end - p.at, Err: fmt.Errorf("%w; %s", err, text)})
	}
	p.at = -1
}

// loseBefore reports the transactions that are missing between the segments before g and its
// first transaction. The end of a segment may look as if nothing had been written there.
func (r *logReader) loseBefore(g *segment, first base.SeqNum) {
	last := max(r.last, r.s.state.FlushedSeq)
	if !r.s.known || r.last == 0 || first <= last+1 {
		return
	}
	err := base.Corrupt(-1, "first transaction", uint64(first), uint64(last+1))
	r.s.report.lose(Loss{File: g.name, Offset: -1, Err: fmt.Errorf("%w; lost are transactions after version %d before version %d", base.InFile(err, g.name), last, first)})
}

// records reads the records of in. A gap counts as a loss if something proves that it was
// once durable.
func (r *logReader) records(g *segment, in *record.Reader) (frames int, err error) {
	p := gap{g: g, at: -1}
	for {
		if err := r.s.o.Stop(); err != nil {
			return frames, err
		}
		at := in.Offset()
		rec, err := in.NextRecord()
		if err == io.EOF {
			if p.at < 0 && g.size < min(g.limit, g.header.Size) && in.Offset() < g.limit {
				p.at, p.err = in.Offset(), base.Corrupt(-1, "size of the file", g.size, g.header.Size)
			}
			r.lose(&p, g.limit, 0)
			return frames, nil
		}
		if err != nil {
			if p.at < 0 {
				p.at, p.err = at, err
			}
			if ok, err := r.skip(in, err); err != nil || !ok {
				r.lose(&p, g.limit, 0)
				return frames, err
			}
			continue
		}
		frames++
		switch rec.Kind {
		case record.Close:
			r.lose(&p, rec.Offset, 0)
			return frames, nil
		case record.Next:
			r.lose(&p, rec.Offset, 0)
			if next, ok := log.Successor(rec.Payload); ok {
				r.successors[next.File] = next
			}
			return frames, nil
		case record.Whole:
			seq, err := r.decode(g, rec)
			if err != nil {
				return frames, err
			}
			if seq > 0 {
				if p.at < 0 && p.after == 0 {
					r.loseBefore(g, seq)
				}
				r.lose(&p, rec.Offset, seq)
				p.after, r.last = seq, max(r.last, seq)
			}
		}
	}
}

// skip moves to the next frame behind damage, and reports false if there is none.
func (r *logReader) skip(in *record.Reader, err error) (bool, error) {
	if !errors.Is(err, base.ErrCorrupt) {
		return false, err
	}
	ok, err := in.Skip()
	if errors.Is(err, base.ErrCorrupt) {
		return false, nil
	}
	return ok, err
}

// decode takes the entries of a transaction.
func (r *logReader) decode(g *segment, rec record.Frame) (base.SeqNum, error) {
	var h payload.Header
	check := func(payload.Header) error { return nil }
	if err := payload.Decode(rec.Payload, check, func(_, _ []byte, _ base.Meta) error { return nil }); err != nil {
		r.s.report.lose(Loss{File: g.name, Offset: rec.Offset, Length: rec.End - rec.Offset, Err: base.InFile(err, g.name)})
		return 0, nil
	}
	err := payload.Decode(rec.Payload, func(got payload.Header) error {
		h = got
		r.s.clockMs = max(r.s.clockMs, h.TimeMs)
		r.s.lastSeq = max(r.s.lastSeq, h.Seq)
		return nil
	}, func(key, value []byte, m base.Meta) error {
		if h.Seq <= r.s.state.FlushedSeq && !r.s.o.IgnoreManifest {
			return nil
		}
		return r.take(key, value, h.Seq, m)
	})
	return h.Seq, err
}
