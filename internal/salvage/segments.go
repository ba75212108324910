package salvage

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

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

// readHeadless reads files whose headers are lost, if a reference has their salt. It reports
// the others as lost, unless they are free or no span reaches them.
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
