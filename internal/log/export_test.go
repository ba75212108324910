package log

// Segment returns the number of the current segment.
func (w *Writer) Segment() uint64 { return w.Current().Number }

// Unsynced returns how many bytes were written since the last sync began.
func (w *Writer) Unsynced() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.unsynced
}
