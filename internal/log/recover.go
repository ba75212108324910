package log

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
)

// Recovered is what Recover found.
type Recovered struct {
	// Spans are the spans the manifest is to record beside the new one: those
	// given, all of them sealed, without leading ones that hold nothing.
	Spans []base.LogSpan
	// Records and Bytes count what was replayed.
	Records, Bytes int64

	next     uint64 // number of the next segment
	nextFile uint64 // number of the next new file
	live     []segmentFile
	free     []segmentFile
	junk     []segmentFile // files without a header, not worth keeping
	carry    tail
}

// Unproven reports whether transactions were replayed that are not known to be
// durable: Create writes them again.
func (r *Recovered) Unproven() bool { return !r.carry.empty() }

// A tail is a stretch of records at the end of the old log that is not proven
// to be durable.
type tail struct {
	ref   base.SegmentRef
	size  int64 // of the segment
	from  boundary
	until int64 // offset; no tail if it is not beyond from
}

// empty reports whether there is nothing to carry.
func (t tail) empty() bool { return t.until <= t.from.offset }

// Recover calls apply for every transaction in the spans, in commit order.
// The payload is borrowed for the call. Spans are in order, the newest last,
// and all but the newest are sealed; the newest is sealed too if an earlier
// recovery was recorded without a new span. Recover changes nothing on disk;
// pass what it returns to Create.
//
// It fails with a base.CorruptionError when anything is missing or damaged
// that was known to be durable, with the error of apply, and with that of a
// file that cannot be read.
func Recover(o Options, spans []base.LogSpan, apply func(payload []byte) error) (Recovered, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Recovered{}, err
	}
	files, err := o.listFiles()
	if err != nil {
		return Recovered{}, err
	}
	p := replay{o: &o, apply: apply, r: Recovered{Spans: slices.Clone(spans)}}
	for i := range p.r.Spans {
		if err := p.span(&p.r.Spans[i]); err != nil {
			return Recovered{}, err
		}
	}
	if err := p.unreferenced(files); err != nil {
		return Recovered{}, err
	}
	p.r.Spans = dropEmpty(p.r.Spans)
	p.r.next++
	p.r.nextFile++
	return p.r, nil
}

// dropEmpty returns spans without the leading ones that hold no frame below
// their seal. Only leading ones may go: the number of the first span tells
// which files are too old to matter.
func dropEmpty(spans []base.LogSpan) []base.LogSpan {
	for len(spans) > 0 {
		s := spans[0]
		if s.EndNumber != s.First.Number || s.End != record.Start {
			break
		}
		spans = spans[1:]
	}
	return spans
}
