package log

import (
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// bulkSync is the mean number of bytes for each sync from which on the blocks of
// segments are not written ahead, where the system can reserve them: that would
// double the bytes written, to save metadata of syncs that are few.
const bulkSync = 64 << 10

// wholeSize is the size of segments up to which all blocks are written ahead in
// any case: it takes little. So recovery need not write those of a small file
// again, only because it does not know what was done with them.
const wholeSize = 256 << 10

// createTries is how many taken file names are passed over. A name may be
// taken by what a failed attempt could not remove.
const createTries = 16

// A plan says what the next segment is to be like.
type plan struct {
	need int64 // it must have room for records of this many bytes
	size int64 // of a new file, if there is space for one
	most int64 // a free file must not be larger
}

// plan returns the plan for the segment that follows the current one: twice
// as large, within the bounds, but in any case large enough for need.
func (w *Writer) plan(need int64) plan {
	size := max(min(2*w.mu.seg.size, w.o.SegmentSizeMax), segmentSize(need))
	return plan{need: need, size: size, most: max(size, w.o.SegmentSizeMax)}
}

// rotate moves to the next segment. Until the Next frame is begun, a failure
// leaves everything as it was.
func (w *Writer) rotate(p plan) error {
	next, err := w.takeNext(p)
	if err != nil {
		return err
	}
	w.b.SetEarly(false)
	w.b.Frame(record.Next, appendSuccessor(nil, next.ref), w.mu.seg.durable.Load())
	finish := w.syncAll
	if mutant.On(mutant.NoRotationSync) {
		finish = w.Flush
	}
	if err := finish(); err != nil {
		next.close()
		return err
	}
	old := w.mu.seg
	w.enter(next)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.stats.Rotations++
	w.retireLocked(old)
	return nil
}

// takeNext returns the prepared segment if it is large enough, else it makes
// one.
func (w *Writer) takeNext(p plan) (*segment, error) {
	w.mu.Lock()
	for w.mu.preparing {
		w.mu.changed.Wait()
	}
	next := w.mu.next
	w.mu.next = nil
	w.mu.Unlock()
	if next != nil {
		if next.limit()-record.Start >= p.need && next.size <= p.most {
			return next, nil
		}
		w.discard(next)
	}
	return w.prepare(p)
}

// prepareAhead starts to make the next segment, so that it is there when it is
// needed. If that fails, the rotation tries again and reports it.
func (w *Writer) prepareAhead() {
	w.prepareAt = never
	p := w.plan(0)
	w.mu.Lock()
	start := !w.mu.preparing && w.mu.next == nil
	w.mu.preparing = w.mu.preparing || start
	w.mu.Unlock()
	if !start {
		return
	}
	w.o.Go(func() {
		next, err := w.prepare(p)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil {
			w.mu.next = next
		}
		w.mu.preparing = false
		w.mu.changed.Broadcast()
	})
}

// prepare makes the segment after the current one: of a free file, or of a new
// one, which is as small as possible when the disk is too full for what was
// planned. One prepare runs at a time.
func (w *Writer) prepare(p plan) (*segment, error) {
	w.mu.Lock()
	number := w.mu.seg.ref.Number + 1
	sparse := w.mu.meanSync > bulkSync || p.size > w.o.SegmentSizeMax // for one record alone
	least := segmentSize(p.need)
	free, recycle := w.takeFreeLocked(max(least, p.size/4), p.most)
	w.mu.Unlock()
	if recycle {
		seg, err := w.o.recycleSegment(w.newRef(number, free.file), free, sparse)
		if err == nil {
			return seg, nil
		}
		// The file may be beyond use: leave it to the next recovery.
	}
	seg, err := w.create(number, p.size, sparse)
	if errors.Is(err, vfs.ErrNoSpace) {
		seg, err = w.prepareFull(number, max(least, w.o.SegmentSizeMin), p, sparse)
	}
	if err != nil {
		return nil, fmt.Errorf("log: no next segment: %w", err)
	}
	return seg, nil
}

// prepareFull makes a segment when the disk is full: of any free file that is
// large enough, or of a new file of the given size.
func (w *Writer) prepareFull(number uint64, size int64, p plan, sparse bool) (*segment, error) {
	w.mu.Lock()
	free, recycle := w.takeFreeLocked(segmentSize(p.need), never)
	w.mu.Unlock()
	if recycle {
		return w.o.recycleSegment(w.newRef(number, free.file), free, sparse)
	}
	return w.create(number, size, sparse)
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

// newRef names a new life of a file.
func (w *Writer) newRef(number, file uint64) base.SegmentRef {
	return base.SegmentRef{Number: number, File: file, Salt: w.o.Random()}
}

// discard gives up a prepared segment. Its file is free.
func (w *Writer) discard(seg *segment) {
	seg.close()
	w.giveBack(seg.inDirectory())
}

// giveBack returns a file to the free ones.
func (w *Writer) giveBack(f segmentFile) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.free = append(w.mu.free, f)
}

// Shrink moves to a segment of the smallest size if the current one is larger,
// so that, once Release and Close have let go of the rest, an idle database is
// small.
func (w *Writer) Shrink() error {
	if err := w.Err(); err != nil {
		return err
	}
	size := w.o.SegmentSizeMin
	if w.mu.seg.size <= size {
		return nil
	}
	return w.rotate(plan{size: size, most: size})
}
