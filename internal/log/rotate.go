package log

import (
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/record"
)

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
