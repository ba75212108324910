package log

import (
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// bulkSync is a mean number of bytes per sync. Above it, new segments only reserve their
// blocks, if the system can. Writing them ahead would double the bytes written and save the
// metadata of only a few syncs.
const bulkSync = 64 << 10

// wholeSize is the segment size in bytes up to which all blocks are always
// written ahead. It costs little. So recovery, which does not know what was
// written, need not write the blocks of a small file again.
const wholeSize = 256 << 10

// createTries is the number of file names to try. A failed attempt may have
// left a file that it could not remove.
const createTries = 16

// takeNext returns the prepared segment if it fits p. Otherwise it makes one.
func (w *Writer) takeNext(p plan) (*segment, error) {
	w.mu.Lock()
	for w.mu.preparing && len(w.mu.next) == 0 {
		w.mu.changed.Wait()
	}
	if len(w.mu.next) > 0 {
		next := w.mu.next[0]
		if next.limit()-record.Start >= p.need && next.size <= p.most {
			w.mu.next, w.mu.tip = w.mu.next[1:], next.ref.Number
			w.mu.Unlock()
			return next, nil
		}
	}
	for w.mu.preparing {
		w.mu.changed.Wait()
	}
	unfit := w.mu.next
	w.mu.next = nil
	w.mu.preparing = true // no job prepares the same segment
	w.mu.Unlock()
	for _, seg := range unfit {
		w.discard(seg)
	}
	next, err := w.prepare(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.mu.tip = next.ref.Number
	}
	w.mu.preparing = false
	w.mu.changed.Broadcast()
	return next, err
}

// prepareAhead starts a background job that prepares segments until there are as many as
// wanted, unless such a job runs. If the job fails, the rotation tries again and reports the
// error.
func (w *Writer) prepareAhead(wanted int) {
	w.mu.Lock()
	w.mu.wanted = wanted
	start := !w.mu.preparing && len(w.mu.next) < wanted
	w.mu.preparing = w.mu.preparing || start
	w.mu.Unlock()
	if start {
		w.o.Go(w.prepareWanted)
	}
}

func (w *Writer) prepareWanted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.mu.next) < w.mu.wanted {
		p := w.plan(0)
		w.mu.Unlock()
		seg, err := w.prepare(p)
		w.mu.Lock()
		if err != nil {
			w.mu.unprepared = true
			break
		}
		w.mu.next = append(w.mu.next, seg)
		w.mu.changed.Broadcast()
	}
	w.mu.preparing = false
	w.mu.changed.Broadcast()
}

// prepare makes the segment after those that are prepared, in a free file or in a new
// one. If the disk has no room for the planned size, the new file is as small
// as possible. One prepare runs at a time.
func (w *Writer) prepare(p plan) (*segment, error) {
	w.mu.Lock()
	number := w.mu.tip + 1 + uint64(len(w.mu.next))
	sparse := w.mu.meanSync > bulkSync || p.size > w.o.SegmentSizeMax // the latter: for one large record
	least := segmentSize(p.need)
	free, recycle := w.takeFreeLocked(max(least, p.size/4), p.most)
	w.mu.Unlock()
	if recycle {
		if seg, err := w.recycle(number, free, sparse); err == nil {
			return seg, nil
		}
	}
	small := max(least, w.o.SegmentSizeMin)
	seg, err := w.createInRoom(number, p.size, small, sparse)
	if errors.Is(err, vfs.ErrNoSpace) {
		seg, err = w.prepareFull(number, small, p, sparse)
	}
	if err != nil {
		return nil, fmt.Errorf("log: prepare the next segment: %w", err)
	}
	return seg, nil
}

// createInRoom makes a segment in a new file. A file larger than small must leave the room that
// flushes need, because the log gives space back only after a flush has written tables.
func (w *Writer) createInRoom(number uint64, size, small int64, sparse bool) (*segment, error) {
	if size > small {
		if !w.o.Space.Promise(size) {
			return nil, vfs.ErrNoSpace
		}
		defer w.o.Space.Taken(size)
	}
	return w.create(number, size, sparse)
}

// prepareFull makes a segment when the disk has no room for the planned one. It uses any free
// file that is large enough, or a new file of the given size.
func (w *Writer) prepareFull(number uint64, size int64, p plan, sparse bool) (*segment, error) {
	w.mu.Lock()
	free, recycle := w.takeFreeLocked(segmentSize(p.need), never)
	w.mu.Unlock()
	if recycle {
		if seg, err := w.recycle(number, free, sparse); err == nil {
			return seg, nil
		}
	}
	return w.create(number, size, sparse)
}

// recycle makes a segment in a free file. If that fails, it removes the file, which may be
// unusable. If the file stays, the next recovery finds it.
func (w *Writer) recycle(number uint64, free segmentFile, sparse bool) (*segment, error) {
	seg, err := w.o.recycleSegment(w.newRef(number, free.file), free, sparse)
	if err != nil {
		_ = w.o.FS.Remove(w.o.path(free.file))
	}
	return seg, err
}

// create makes a segment in a new file.
func (w *Writer) create(number uint64, size int64, sparse bool) (seg *segment, err error) {
	for range createTries {
		w.mu.Lock()
		file := w.mu.nextFile
		w.mu.nextFile++
		w.mu.Unlock()
		seg, err = w.o.newSegment(w.newRef(number, file), size, sparse)
		if !errors.Is(err, vfs.ErrExist) {
			break
		}
	}
	return seg, err
}

// newRef returns a reference to a segment in the given file, with a new salt.
func (w *Writer) newRef(number, file uint64) base.SegmentRef {
	return base.SegmentRef{Number: number, File: file, Salt: w.o.Random()}
}
