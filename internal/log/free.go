package log

import (
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/vfs"
)

// freeMax is the number of free files kept for recycling.
const freeMax = 2

// takeFreeLocked takes the smallest free file with a size in [least, most].
func (w *Writer) takeFreeLocked(least, most int64) (segmentFile, bool) {
	best := -1
	for i, f := range w.mu.free {
		fits := f.size >= least && f.size <= most && f.size%sizeUnit == 0
		if fits && (best < 0 || f.size < w.mu.free[best].size) {
			best = i
		}
	}
	if best < 0 {
		return segmentFile{}, false
	}
	f := w.mu.free[best]
	w.mu.free = append(w.mu.free[:best:best], w.mu.free[best+1:]...)
	return f, true
}

// Release frees the files of all segments with a number below before. The
// manifest must durably no longer need them. It deletes files that are too
// many or too large. The current segment stays.
func (w *Writer) Release(before uint64) error {
	w.mu.Lock()
	live, to := w.mu.live, &w.mu.free
	if w.mu.holds > 0 {
		to = &w.mu.held
	}
	for len(live) > 1 && live[0].number < before && !mutant.On(mutant.KeepLog) {
		*to = append(*to, live[0])
		live = live[1:]
	}
	w.mu.live = append([]segmentFile(nil), live...)
	w.mu.Unlock()
	return w.trimFree(freeMax, w.o.SegmentSizeMax)
}

// Trim deletes the free files of an idle or closed database, except one small
// one.
func (w *Writer) Trim() error {
	w.mu.Lock()
	var unused []*segment
	if !w.mu.preparing { // the numbers of those that are being prepared follow these
		unused, w.mu.next = w.mu.next, nil
	}
	w.mu.Unlock()
	for _, seg := range unused {
		w.discard(seg)
	}
	return w.trimFree(1, w.o.SegmentSizeMin)
}

// trimFree deletes free files until at most count are left, none larger than size.
// It deletes the smallest first: in a busy database all segments become large.
func (w *Writer) trimFree(count int, size int64) error {
	for {
		f, found := w.takeSurplus(count, size)
		if !found {
			return nil
		}
		// An earlier attempt that reported a failure may have removed it.
		if err := w.o.FS.Remove(w.o.path(f.file)); err != nil && !errors.Is(err, vfs.ErrNotExist) {
			w.keepFree(f)
			return fmt.Errorf("log: remove %s: %w", w.o.path(f.file), err)
		}
	}
}

// takeSurplus takes one file for trim to delete.
func (w *Writer) takeSurplus(count int, size int64) (segmentFile, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, found := w.takeFreeLargerLocked(size); found {
		return f, true
	}
	if len(w.mu.free) <= count {
		return segmentFile{}, false
	}
	smallest := 0
	for i, f := range w.mu.free {
		if f.size < w.mu.free[smallest].size {
			smallest = i
		}
	}
	f := w.mu.free[smallest]
	w.mu.free = append(w.mu.free[:smallest:smallest], w.mu.free[smallest+1:]...)
	return f, true
}

// takeFreeLargerLocked takes any free file larger than size.
func (w *Writer) takeFreeLargerLocked(size int64) (segmentFile, bool) {
	for i, f := range w.mu.free {
		if f.size > size {
			w.mu.free = append(w.mu.free[:i:i], w.mu.free[i+1:]...)
			return f, true
		}
	}
	return segmentFile{}, false
}
