package space

import (
	"errors"
	"time"

	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// measures is what a look measures, in bytes.
type measures struct {
	free         int64
	flushReserve int64
	jobs         Need
	promised     int64
	now          int64 // of work.Now
}

// lastLook is what the reserve knew before a look.
type lastLook struct {
	low         bool
	merge, copy *shortage
	flush       int64 // what was free when a flush failed, 0 if none has
}

// found is what a look decides.
type found struct {
	reserve int64 // bytes to keep free
	room    int64 // bytes that may be promised; below 0 there are too few
	low     bool
	// Jobs that failed for lack of space and may be tried again.
	retryMerge, retryCopy, retryFlush bool
}

// look decides what the measures mean. Whether the disk is low depends only on the free
// bytes and the reserve. Otherwise large and small transactions in turn would change it
// back and forth.
func look(m measures, before lastLook) found {
	reserve := m.flushReserve + m.jobs.sum()
	return found{
		reserve:    reserve,
		room:       m.free - reserve - m.promised,
		low:        m.free < reserve,
		retryMerge: before.merge != nil && before.merge.retryable(m.free, m.now),
		retryCopy:  before.copy != nil && before.copy.retryable(m.free, m.now),
		retryFlush: before.flush > 0 && MuchMore(m.free, before.flush),
	}
}

// A shortage is a merge or a copy that failed for lack of space, although there
// had seemed to be enough.
type shortage struct {
	bytes int64 // that it was to write at most
	free  int64 // bytes that were free after it had deleted its output
	at    int64 // of work.Now
}

// RetryMax is the longest wait before a job that failed for lack of space is tried again.
// The system may not report that a quota has room again.
const RetryMax = time.Hour

// retryable reports whether the job may be tried again with that many free bytes.
func (s *shortage) retryable(free, now int64) bool {
	return MuchMore(free, s.free) || now-s.at >= int64(RetryMax)
}

// MuchMore reports whether free is at least an eighth more than before.
func MuchMore(free, before int64) bool { return free > before && free/9 >= before/8 }

// FailedBy notes the error of a write. If the disk had no space, the last look is out of
// date.
func (r *Reserve) FailedBy(err error) {
	if errors.Is(err, vfs.ErrNoSpace) {
		r.Look()
	}
}

// WriteFailed notes the error of a write that a caller waits for, or of a flush. If the disk
// had no space although the system reports some, jobs free what they can.
func (r *Reserve) WriteFailed(err error) {
	if !errors.Is(err, vfs.ErrNoSpace) {
		return
	}
	if r.Look(); r.low.Load() {
		return
	}
	was := r.full()
	if r.fullAt.Store(work.Now()); !was {
		r.wakeAll()
	}
}

// FlushFailed notes the error of a flush that no caller waits for.
func (r *Reserve) FlushFailed(err error) {
	if errors.Is(err, vfs.ErrNoSpace) {
		r.Look()
		r.shortFlush.Store(max(r.free.Load(), blockSize))
	}
}

// MergeEnded notes the outcome of a merge that was to write at most that many bytes.
func (r *Reserve) MergeEnded(bytes int64, err error) {
	if errors.Is(err, vfs.ErrNoSpace) {
		r.Look()
		r.shortMerge.Store(&shortage{bytes: bytes, free: r.free.Load(), at: work.Now()})
	}
}

// CopyEnded notes the outcome of a copy of that many bytes of a value file.
func (r *Reserve) CopyEnded(bytes uint64, err error) {
	failed := r.shortCopy.Load()
	switch {
	case errors.Is(err, vfs.ErrNoSpace):
		r.Look()
		least := int64(bytes)
		if failed != nil {
			least = min(least, failed.bytes)
		}
		r.shortCopy.Store(&shortage{bytes: least, free: r.free.Load(), at: work.Now()})
		r.o.Compact() // from now on, the compactor looks now and then
	case err == nil && failed != nil && int64(bytes) > failed.bytes/2:
		r.shortCopy.CompareAndSwap(failed, nil) // a caller of Collect tried, and there is room
	}
}
