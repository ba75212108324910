package log

// Stats describe a log.
type Stats struct {
	// Segments counts the segments that are still needed, the current one
	// included. FreeFiles counts the files kept for recycling, prepared, or kept by Hold.
	Segments, FreeFiles int
	// BytesOnDisk is the size of all these files in bytes.
	BytesOnDisk int64
	// BytesWritten counts the bytes of written frames, Syncs the syncs of
	// segments in use, and Rotations the moves to another segment.
	BytesWritten, Syncs, Rotations int64
}

// Stats returns the figures of a recovered log before Create.
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
	for _, files := range [][]segmentFile{w.mu.live, w.mu.free, w.mu.held} {
		for _, f := range files {
			s.BytesOnDisk += f.size
		}
	}
	for _, seg := range w.mu.next {
		s.FreeFiles++
		s.BytesOnDisk += seg.size
	}
	return s
}
