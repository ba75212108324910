package log

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// Verify reads spans, all of them sealed, and returns how many transactions are in
// them. It calls pass before each, and ends with its error. Otherwise the error is a
// base.CorruptionError, or that of a file that cannot be read. It holds no more
// than a frame in memory.
//
// Others may write to the log meanwhile, as long as what the spans have is neither
// recycled nor deleted: see Writer.Hold and Writer.Proven.
func Verify(o Options, spans []base.LogSpan, pass func() error) (records int64, err error) {
	if o, err = o.withDefaults(); err != nil {
		return 0, err
	}
	p := replay{o: &o, apply: func([]byte) error { return pass() }, bare: true}
	for _, s := range slices.Clone(spans) {
		if err := p.span(&s); err != nil {
			return p.r.Records, err
		}
	}
	return p.r.Records, nil
}

// Proven returns the writer's span as if it ended behind the last transaction that
// is known to be on the device. All of that stays readable, whatever becomes of the
// writer.
func (w *Writer) Proven() base.LogSpan {
	w.mu.Lock()
	defer w.mu.Unlock()
	seg := w.mu.seg
	return base.LogSpan{First: w.first, Sealed: true,
		EndNumber: seg.ref.Number, End: seg.proven.offset, EndChain: seg.proven.chain}
}

// Hold keeps the segments that a Release lets go of from then on as they are, until
// letGo is called, which returns what Release would have.
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
		return w.trim(freeMax, w.o.SegmentSizeMax)
	}
}
