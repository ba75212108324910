package log

import "github.com/stoatdb/stoat/internal/record"

// Mark writes a frame that says how far the current segment is durable, unless a frame says
// so already. The package comment tells why. The caller holds the commit mutex and has
// flushed what it built.
//
// A failed Mark does not poison the log. The next write includes the frame again,
// in front of its own frames.
func (w *Writer) Mark() error {
	if w.failed.Load() {
		return w.Err()
	}
	w.unsaid.Store(false)
	seg := w.mu.seg
	durable := seg.durable.Load()
	// Behind limit there is a mark already, and no room for another.
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
	// seg.flushed stays unchanged: no Sync should wait for a mark alone.
	w.mu.stats.BytesWritten += int64(len(p))
	return nil
}

// Unsaid reports whether a full segment has become durable since the last Mark. It may be
// that no frame since the rotation says so. A synced commit then calls Mark. Otherwise damage
// to the full segment would look like a torn tail until the next commit.
func (w *Writer) Unsaid() bool { return w.unsaid.Load() }
