package salvage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/payload"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
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

// A segment is a use of a log file.
type segment struct {
	name   string
	file   uint64
	header record.Header
	size   int64
	// limit is where its records end, and whole says that they are known to reach it.
	limit int64
	whole bool
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

// headers returns the segments in the order of their numbers, and the files without a
// header.
func (r *logReader) headers(files []uint64) (all []segment, headless []segment, err error) {
	for _, file := range files {
		if err := r.s.o.Stop(); err != nil {
			return nil, nil, err
		}
		name := log.FileName(file)
		f, size, err := r.open(name)
		if err != nil {
			r.s.report.loseFile(name, 0, nil, nil, err)
			continue
		}
		found, err := record.ReadHeaders(f, size, record.TypeLog)
		_ = f.Close() // it was only read
		if err != nil {
			return nil, nil, err
		}
		known := false
		for _, h := range found {
			if h.File == file {
				known = true
				all = append(all, segment{name: name, file: file, header: h, size: size, limit: h.Size})
			}
		}
		if !known {
			headless = append(headless, segment{name: name, file: file, size: size, limit: size})
		}
	}
	slices.SortFunc(all, func(a, b segment) int { return cmp.Compare(a.header.Number, b.header.Number) })
	return r.live(all), headless, nil
}

// live returns the segments that the manifest needs, if it is whole, and sets their ends.
func (r *logReader) live(all []segment) []segment {
	spans := r.s.state.Spans
	if !r.s.known || len(spans) == 0 {
		return all
	}
	var live []segment
	for _, g := range all {
		n := g.header.Number
		i, _ := slices.BinarySearchFunc(spans, n, func(s base.LogSpan, n uint64) int { return cmp.Compare(s.First.Number, n+1) })
		if i == 0 {
			continue
		}
		span := spans[i-1]
		switch {
		case n == span.First.Number && g.header.Salt != span.First.Salt:
			continue
		case span.Sealed && n > span.EndNumber:
			continue
		case span.Sealed && n == span.EndNumber:
			g.limit, g.whole = min(g.header.Size, span.End), true
		case span.Sealed:
			g.whole = true
		}
		live = append(live, g)
	}
	r.missing(spans, live)
	return live
}

// missing reports segments of complete spans that do not exist.
func (r *logReader) missing(spans []base.LogSpan, live []segment) {
	for _, s := range spans {
		for n := s.First.Number + 1; s.Sealed && n <= s.EndNumber && n-s.First.Number < lostMax; n++ {
			_, found := slices.BinarySearchFunc(live, n, func(g segment, n uint64) int { return cmp.Compare(g.header.Number, n) })
			if !found {
				r.s.report.lose(Loss{File: fmt.Sprintf("segment %d of the log", n), Offset: -1, Err: base.Corrupt(-1, "segment", "none", "a file")})
			}
		}
	}
}

func (r *logReader) open(name string) (vfs.File, int64, error) {
	f, err := r.s.fs.Open(r.s.fs.Join(r.s.o.From, name), vfs.CatLog)
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err != nil {
		_ = f.Close() // it was only read
		return nil, 0, err
	}
	return fault.Tolerant(f), size, nil
}

// readHeadless reads files whose headers are lost, but whose salts are known. Others are
// lost, unless they are free or unfinished.
func (r *logReader) readHeadless(files []segment) error {
	for _, g := range files {
		ref, known := r.successors[g.file]
		if !known && r.s.known && len(r.s.state.Spans) > 0 {
			continue // no span reaches it
		}
		err := base.InFile(base.Corrupt(0, "segment header", "none", "one"), g.name)
		r.done[g.file] = ref.Number
		frames := 0
		if known && r.s.sealer == nil {
			g.header = record.Header{Type: record.TypeLog, Number: ref.Number, File: ref.File, Salt: ref.Salt, Size: g.size}
			var readErr error
			if frames, readErr = r.read(&g); readErr != nil {
				return readErr
			}
		}
		if frames > 0 {
			r.s.noteOnce(err.Error())
			continue
		}
		if used, readErr := r.used(&g); readErr != nil {
			return readErr
		} else if used || known {
			r.s.report.loseFile(g.name, g.size, nil, nil, err)
		}
	}
	return nil
}

// used reports whether the file has anything but zeros where frames are.
func (r *logReader) used(g *segment) (bool, error) {
	f, _, err := r.open(g.name)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b := make([]byte, 256<<10)
	for at := int64(record.Start); at < g.size; at += int64(len(b)) {
		n, err := f.ReadAt(b, at)
		if err != nil && err != io.EOF {
			return false, err
		}
		if bytes.Count(b[:n], []byte{0}) < n {
			return true, nil
		}
	}
	return false, nil
}

// unreached reports segments that are missing although the manifest or another segment
// names them.
func (r *logReader) unreached() {
	for _, ref := range r.successors {
		if r.s.known && r.done[ref.File] != ref.Number {
			r.s.report.loseFile(log.FileName(ref.File), 0, nil, nil, base.Corrupt(-1, "segment", "another one, or none", fmt.Sprintf("segment %d", ref.Number)))
		}
	}
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

// take takes an entry. It sorts what it has before the memory is full.
func (r *logReader) take(key, value []byte, seq base.SeqNum, m base.Meta) error {
	if m.Kind == base.KindDeleteRange {
		r.deletions = append(r.deletions, rangedel.Deletion{Lo: bytes.Clone(key), Hi: bytes.Clone(base.LoadedBound(value)), Seq: seq})
		return nil
	}
	if r.bytes > r.s.o.SpillSize {
		if err := r.spill(); err != nil {
			return err
		}
	}
	const perEntry = 96 // of base.Entry, in bytes
	r.bytes += len(key) + len(value) + perEntry
	own := make([]byte, 0, len(key)+len(value))
	own = append(append(own, key...), value...)
	r.entries = append(r.entries, base.Entry{Key: own[:len(key):len(key)], Value: own[len(key):], Seq: seq, Meta: m})
	return nil
}

// sorted returns a source of the entries in memory.
func (r *logReader) sorted() source {
	slices.SortStableFunc(r.entries, func(a, b base.Entry) int {
		return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(b.Seq, a.Seq))
	})
	// Recovery writes a transaction again.
	same := func(a, b base.Entry) bool { return a.Seq == b.Seq && bytes.Equal(a.Key, b.Key) }
	list := &list{entries: slices.CompactFunc(r.entries, same)}
	r.entries, r.bytes = nil, 0
	return list
}

// spill writes the entries in memory to a table.
func (r *logReader) spill() error {
	m, err := newMerger([]source{r.sorted()})
	if err != nil {
		return err
	}
	merged, err := r.s.mergeRaw(m, true)
	r.spilled = append(r.spilled, merged)
	return err
}

// A list is a source in memory.
type list struct {
	entries []base.Entry
	current entry
}

func (l *list) next() (*entry, error) {
	if len(l.entries) == 0 {
		return nil, nil
	}
	l.current = entry{Entry: l.entries[0], rank: ofLog}
	l.entries = l.entries[1:]
	return &l.current, nil
}

func (l *list) close() { l.entries = nil }
