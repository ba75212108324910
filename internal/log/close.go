package log

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
)

// Close makes everything durable and marks the log as closed in order. For a
// poisoned writer it only closes the files. No other call may be running, and
// no later call may write to the log.
func (w *Writer) Close() error {
	w.mu.Lock()
	for w.mu.preparing || w.mu.ahead || len(w.mu.pending) > 0 || w.mu.seg.inUse() {
		w.mu.changed.Wait()
	}
	unused := w.mu.next
	w.mu.next = nil
	w.mu.Unlock()
	for _, seg := range unused {
		w.discard(seg)
	}
	err := w.markClosed()
	w.mu.seg.close()
	return err
}

// Span returns the writer's span, sealed behind its last record, once Close
// has returned nil. When the manifest records it, anything that goes missing
// from the log later is known to be missing.
func (w *Writer) Span() base.LogSpan { return w.span }

// markClosed makes everything durable and then appends the frames that say so.
func (w *Writer) markClosed() error {
	if err := w.Err(); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := w.Sync(); err != nil {
		return err
	}
	w.span = sealedAt(w.first, w.mu.seg.ref.Number, w.end)
	w.b.Finish(record.Close, w.mu.seg.durable.Load())
	return w.syncAll()
}
