package log

import (
	"errors"
	"fmt"
	"slices"

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
	w.mu.free = slices.Delete(w.mu.free, best, best+1)
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
	w.mu.live = slices.Clone(live)
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

// takeSurplus takes one file for trimFree to delete: one that is larger than size, or else
// the smallest if there are more than count.
func (w *Writer) takeSurplus(count int, size int64) (segmentFile, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	surplus := slices.IndexFunc(w.mu.free, func(f segmentFile) bool { return f.size > size })
	if surplus < 0 && len(w.mu.free) > count {
		surplus = 0
		for i, f := range w.mu.free {
			if f.size < w.mu.free[surplus].size {
				surplus = i
			}
		}
	}
	if surplus < 0 {
		return segmentFile{}, false
	}
	f := w.mu.free[surplus]
	w.mu.free = slices.Delete(w.mu.free, surplus, surplus+1)
	return f, true
}

// discard gives up a prepared segment and frees its file.
func (w *Writer) discard(seg *segment) {
	seg.close()
	w.keepFree(seg.inDirectory())
}

// keepFree returns a file to the free ones.
func (w *Writer) keepFree(f segmentFile) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.free = append(w.mu.free, f)
}
