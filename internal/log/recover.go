package log

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
)

// Recovered is what Recover found.
type Recovered struct {
	// Spans are the spans that the manifest must record before the new one:
	// those given, all sealed, without leading empty ones.
	Spans []base.LogSpan
	// Records counts the replayed transactions.
	Records int64

	next     uint64 // number of the next segment
	nextFile uint64 // number of the next new file
	live     []segmentFile
	free     []segmentFile
	junk     []segmentFile // files without a header or with a foreign name, not worth keeping
	carry    []tail        // in order, without empty ones
	// unproven are the segments that no frame behind them says to be durable. A tail ends in
	// the last of them.
	unproven []base.SegmentRef
}

// Unproven reports whether Recover replayed transactions that are not known to
// be durable. Create writes them again.
func (r *Recovered) Unproven() bool { return len(r.carry) > 0 }

// Carried returns the number of the last transactions that Create writes again.
func (r *Recovered) Carried() int64 {
	records := int64(0)
	for _, t := range r.carry {
		records += t.records
	}
	return records
}

// A tail is a range of records of one segment, at the end of the old log, that is not proven
// to be durable.
type tail struct {
	ref     base.SegmentRef
	from    boundary
	until   int64 // end offset; the tail is empty if it is not beyond from
	records int64
}

// empty reports whether there is nothing to carry.
func (t tail) empty() bool { return t.until <= t.from.offset }

// Recover calls apply for every transaction in the spans, in commit order. The
// payload is valid only during the call. Before it reads a segment, it calls enter with the
// size of the segment in bytes. Spans are in order, the newest last.
// All but the newest are sealed. The newest is sealed too if an earlier recovery
// was recorded without a new span. Recover changes nothing on disk; the caller passes
// its result to Create.
//
// Recover fails with a base.CorruptionError when something known to be durable is
// missing or damaged. It also returns the error of apply, and that of a file
// that cannot be read.
func Recover(o Options, spans []base.LogSpan, enter func(ref base.SegmentRef, size int64), apply func(payload []byte) error) (Recovered, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Recovered{}, err
	}
	files, err := o.listFiles()
	if err != nil {
		return Recovered{}, err
	}
	p := replay{o: &o, enter: enter, apply: apply, r: Recovered{Spans: slices.Clone(spans)}}
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
// their seal. It drops only leading ones: the number of the first span tells
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
