package log

// Stats describe a log.
type Stats struct {
	// Segments counts the segments that are still needed, the current one
	// included; FreeFiles the files kept for recycling, or only held by a check.
	Segments, FreeFiles int
	// BytesOnDisk is the size of all of these.
	BytesOnDisk int64
	// BytesWritten counts the bytes of frames that were written, Syncs the
	// syncs of segments in use, and Rotations the moves to another segment.
	BytesWritten, Syncs, Rotations int64
}

// Stats returns the figures of a log that is not written yet.
func (r *Recovered) Stats() Stats {
	s := Stats{Segments: len(r.live), FreeFiles: len(r.free) + len(r.junk)}
	for _, files := range [][]segmentFile{r.live, r.free, r.junk} {
		for _, f := range files {
			s.BytesOnDisk += f.size
		}
	}
	return s
}

// Stats returns the current figures.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.mu.stats
	s.Segments, s.FreeFiles = len(w.mu.live), len(w.mu.free)+len(w.mu.held)
	for _, f := range w.mu.live {
		s.BytesOnDisk += f.size
	}
	for _, f := range w.mu.free {
		s.BytesOnDisk += f.size
	}
	for _, f := range w.mu.held {
		s.BytesOnDisk += f.size
	}
	if w.mu.next != nil {
		s.FreeFiles++
		s.BytesOnDisk += w.mu.next.size
	}
	return s
}

// NeededBytes returns the size of the segments that are still needed, the current
// one included: what a Release can let go of, but for that one. What is prepared
// or free is not among them.
func (w *Writer) NeededBytes() (bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.mu.live {
		bytes += f.size
	}
	return bytes
}
