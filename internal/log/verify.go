package log

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// Verify reads spans, which must be sealed, and returns the number of
// transactions in them. It calls pass before each and stops at its error. Any
// other error is a base.CorruptionError, or that of a file that cannot be
// read. Verify holds no more than one frame in memory.
//
// A writer may write to the log meanwhile, if it neither recycles nor deletes
// the segments of the spans: see Writer.Hold and Writer.Proven.
func Verify(o Options, spans []base.LogSpan, pass func() error) (records int64, err error) {
	if o, err = o.withDefaults(); err != nil {
		return 0, err
	}
	p := replay{o: &o, enter: func(base.SegmentRef, int64) {}, apply: func([]byte) error { return pass() }, noPayload: true}
	for _, s := range slices.Clone(spans) {
		if err := p.span(&s); err != nil {
			return p.r.Records, err
		}
	}
	return p.r.Records, nil
}

// Proven returns the part of the writer's span from the segment first on, ended behind the
// last transaction known to be on the device. That part stays readable even if the writer
// fails.
func (w *Writer) Proven(first base.SegmentRef) base.LogSpan {
	w.mu.Lock()
	defer w.mu.Unlock()
	seg := w.mu.seg
	if len(w.mu.pending) > 0 {
		seg = w.mu.pending[0]
	}
	number, at := seg.ref.Number, seg.proven
	if number < first.Number { // what is not durable yet comes before it
		number, at = first.Number, startOf(first.Salt)
	}
	return sealedAt(first, number, at)
}

// Hold keeps all segments that Release frees from now on unchanged, until the
// caller calls letGo. letGo returns the error that Release would have returned.
func (w *Writer) Hold() (letGo func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.holds++
	return func() error {
		w.mu.Lock()
		if w.mu.holds--; w.mu.holds == 0 {
			w.mu.free = append(w.mu.free, w.mu.held...)
			w.mu.held = nil
		}
		w.mu.Unlock()
		return w.trimFree(freeMax, w.o.SegmentSizeMax)
	}
}
