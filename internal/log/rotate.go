package log

import (
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
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

// A plan says what the next segment should be like. All sizes are in bytes.
type plan struct {
	need int64 // room for records
	size int64 // of a new file, if the disk has space for it
	most int64 // the largest free file to take
}

// plan returns the plan for a segment after the current one: twice as large,
// within the bounds, but always large enough for need.
func (w *Writer) plan(need int64) plan {
	size := max(min(2*w.mu.seg.size, w.o.SegmentSizeMax), segmentSize(need))
	return plan{need: need, size: size, most: max(size, w.o.SegmentSizeMax)}
}

// pendingMax is the number of full segments that may be on their way to the device. A
// writer that is further ahead waits. Together they have at most as many bytes as pendingMax
// segments of the largest size, unless there is only one.
const pendingMax = 4

// rotate moves to the next segment, and leaves it to a background job to make the current
// one durable. A failure before the Next frame is begun changes nothing.
func (w *Writer) rotate(p plan) error {
	if err := w.awaitPending(); err != nil {
		return err
	}
	next, err := w.takeNext(p)
	if err != nil {
		return err
	}
	w.b.SetEarly(false)
	w.b.Frame(record.Next, appendSuccessor(nil, next.ref), w.mu.seg.durable.Load())
	if err := w.Flush(); err != nil {
		next.close()
		return err
	}
	if !mutant.On(mutant.ClaimsEarly) {
		next.durable.Store(0) // the segments before come first
	}
	if w.enter(next) == 1 {
		w.o.Go(w.syncPending)
	}
	return w.Err()
}

// awaitPending waits until the current segment may become pending.
func (w *Writer) awaitPending() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.manyPendingLocked() && w.mu.err == nil {
		w.mu.changed.Wait()
	}
	return w.mu.err
}

// manyPendingLocked reports whether the current segment would be too much beside those that
// are pending.
func (w *Writer) manyPendingLocked() bool {
	bytes := w.b.Offset()
	for _, seg := range w.mu.pending {
		bytes += seg.flushed.offset
	}
	n := len(w.mu.pending)
	return n >= pendingMax || n > 0 && bytes > pendingMax*w.o.SegmentSizeMax
}

// syncPending makes full segments durable, one after the other, until there is none.
func (w *Writer) syncPending() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.mu.pending) > 0 {
		old, next := w.mu.pending[0], w.mu.seg
		if len(w.mu.pending) > 1 {
			next = w.mu.pending[1]
		}
		end := old.flushed
		w.mu.Unlock()
		var err error
		if !mutant.On(mutant.NoRotationSync) {
			err = old.file.SyncData()
		}
		w.mu.Lock()
		if err != nil {
			_ = w.failLocked(w.o.inFile(err, "sync", old.ref.File)) // the error is in w.mu.err now
		}
		if w.mu.err == nil {
			old.syncedLocked(end)
			next.syncedLocked(reach{record.Start, next.proven})
			w.unsaid.Store(true)
		}
		w.mu.pending = w.mu.pending[1:]
		w.retireLocked(old)
		w.mu.changed.Broadcast()
	}
}

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
// one. If the disk is too full for the planned size, the new file is as small
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
	seg, err := w.create(number, p.size, sparse)
	if errors.Is(err, vfs.ErrNoSpace) {
		seg, err = w.prepareFull(number, max(least, w.o.SegmentSizeMin), p, sparse)
	}
	if err != nil {
		return nil, fmt.Errorf("log: prepare the next segment: %w", err)
	}
	return seg, nil
}

// prepareFull makes a segment when the disk is full. It uses any free file that is large
// enough, or a new file of the given size.
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

// Shrink moves to a segment of the smallest size if the current one is larger.
// After Release and Close have freed the rest, an idle database is small. Shrink waits until
// everything before is durable, so that its caller learns of a failure: no commit may follow.
func (w *Writer) Shrink() error {
	if err := w.Err(); err != nil {
		return err
	}
	size := w.o.SegmentSizeMin
	if w.mu.seg.size <= size {
		return nil
	}
	if err := w.rotate(plan{size: size, most: size}); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.mu.pending) > 0 && w.mu.err == nil {
		w.mu.changed.Wait()
	}
	return w.mu.err
}
