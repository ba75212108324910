package log

// Segment returns the number of the current segment.
func (w *Writer) Segment() uint64 { return w.Current().Number }
