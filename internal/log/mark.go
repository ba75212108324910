package log

import "github.com/stoatdb/stoat/internal/record"

// Mark writes a frame that says how far the current segment is durable, unless one
// says that already. The caller holds the commit mutex and has flushed what it
// built.
//
// Nothing else says it of the last records before somebody commits again or closes
// the log, and until then damage to them looks like a torn tail. The mark itself is
// not synced: it gets to the device with the next sync, or in the course of time.
// Whatever becomes of it, what it says was so before it was written; and without it
// the log ends where it ended before.
//
// A failure to write it is no failure of the log. The frame is written again in
// front of the next one.
func (w *Writer) Mark() error {
	if w.failed.Load() {
		return w.Err()
	}
	seg := w.mu.seg
	durable := seg.durable.Load()
	// Behind limit there is a mark, and the room that is left is not for another.
	if durable > w.b.Claimed() && w.b.Offset() <= w.limit {
		w.b.SetEarly(false)
		w.b.Frame(record.Mark, nil, durable)
	}
	p, offset := w.b.Sealed()
	if len(p) == 0 {
		return nil
	}
	if _, err := seg.file.WriteAt(p, offset); err != nil {
		return w.o.inFile(err, "mark", seg.ref.File)
	}
	w.b.Reset()
	w.mu.Lock()
	defer w.mu.Unlock()
	// How far is flushed stays as it is: no Sync is to wait for a mark alone.
	w.mu.stats.BytesWritten += int64(len(p))
	return nil
}
