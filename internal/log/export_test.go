package log

import "github.com/stoatdb/stoat/internal/base"

// recoverAll is Recover for a caller that does not ask about segments.
func recoverAll(o Options, spans []base.LogSpan, apply func(payload []byte) error) (Recovered, error) {
	return Recover(o, spans, func(base.SegmentRef, int64) {}, apply)
}

// Segment returns the number of the current segment.
func (w *Writer) Segment() uint64 { return w.Current().Number }

// Unsynced returns how many bytes were written since the last sync began.
func (w *Writer) Unsynced() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.unsynced
}
