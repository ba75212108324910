package log

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/record"
)

const (
	// spillSize is the number of built bytes that are written out without
	// waiting for Flush.
	spillSize = 1 << 20
	// manyUnsynced is the number of bytes without a sync from which on a segment is
	// announced to the file system as one that small writes will fill. Where commits wait
	// for syncs, that would save nothing: the system protects synced pages from writes.
	manyUnsynced = 64 << 10
	// recordSizeMax bounds one transaction in bytes, so that no sum of sizes
	// overflows.
	recordSizeMax = 1 << 48
)

// A Writer writes one span of the log.
type Writer struct {
	o     Options         // immutable
	first base.SegmentRef // set by Create
	span  base.LogSpan    // set by Close, sealed

	// Guarded by the caller's commit mutex.

	b         record.Builder
	limit     int64    // offset at which the room for records ends
	end       boundary // behind the last record in the current segment
	prepareAt int64    // offset at which the next segment is prepared

	failed atomic.Bool // set after mu.err
	// unsaid is set when a full segment has become durable, and perhaps no frame says so yet.
	unsaid atomic.Bool

	// Guarded by mu itself.

	mu struct {
		sync.Mutex
		// changed is broadcast when a lane becomes idle, when a segment has been prepared, when
		// a full segment has become durable, when SyncAhead ends, and when the writer fails.
		changed *sync.Cond

		err error
		// seg is the current segment. It changes under both the commit mutex and
		// mu, so that either is enough to read it.
		seg *segment

		// pending are full segments before seg that are not durable yet, the oldest first.
		pending   []*segment
		ahead     bool // SyncAhead syncs
		preparing bool
		// unprepared is set when a background job could not prepare a segment, until the next
		// rotation.
		unprepared bool
		wanted     int        // how many segments are to be prepared
		tip        uint64     // number of seg, or of the next one that a rotation has taken
		next       []*segment // prepared, the next one first
		nextFile   uint64     // number of the next new file

		live  []segmentFile // ascending; the last one is seg
		free  []segmentFile
		held  []segmentFile // to become free when holds is 0
		holds int

		meanSync int64 // moving mean of bytes per sync
		unsynced int64 // bytes written since the last sync began
		stats    Stats
	}
}

// First names the first segment of the writer's span. The manifest must record
// the span, as its newest and open one, before the first commit is
// acknowledged. Until then only the carried records may be written.
func (w *Writer) First() base.SegmentRef { return w.first }

// Current names the current segment. Every later record goes to it or to a
// later one. So a span may start with it once nothing before it is needed.
func (w *Writer) Current() base.SegmentRef {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.seg.ref
}

// Written returns the offset below which the segment with a number is written. It is the
// end of everything that Flush has written, or the end of a segment before the current one.
func (w *Writer) Written(number uint64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.seg.ref.Number == number {
		return w.mu.seg.flushed.offset
	}
	return never
}

// Place returns the current segment and its size in bytes. The caller holds the commit
// mutex, so that the segment stays the current one.
func (w *Writer) Place() (ref base.SegmentRef, size int64) { return w.mu.seg.ref, w.mu.seg.size }

// NeededFrom returns the size in bytes of the segments from a number on. The current one
// is included, prepared and free files are not.
func (w *Writer) NeededFrom(number uint64) (bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.mu.live {
		if f.number >= number {
			bytes += f.size
		}
	}
	return bytes
}

// fail poisons the writer with err, unless it is poisoned already. It returns the
// error that poisons it.
func (w *Writer) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failLocked(err)
}

// failLocked is fail for callers that hold mu.
func (w *Writer) failLocked(err error) error {
	if w.mu.err == nil && !mutant.On(mutant.NoPoison) {
		w.mu.err = err
		w.failed.Store(true)
		w.mu.changed.Broadcast()
	}
	return w.mu.err
}

// Err returns the error that poisons the writer, or nil.
func (w *Writer) Err() error {
	if !w.failed.Load() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.err
}

// Reserve makes sure that the caller can begin and end one record of n payload
// bytes without more disk space and without another segment. It may move to
// the next segment, after writing what was built before. If making a segment fails,
// for example with vfs.ErrNoSpace, the log is unchanged and a later Reserve may succeed.
func (w *Writer) Reserve(n int64) error {
	if w.failed.Load() {
		return w.Err()
	}
	if n < 0 || n > recordSizeMax {
		return fmt.Errorf("log: the record is %d bytes, want 0 to %d", n, int64(recordSizeMax))
	}
	need := record.Size(n, w.o.FrameSizeMax)
	at := w.b.Offset() + need
	if at <= w.limit && at < w.prepareAt {
		return nil
	}
	if at <= w.limit {
		w.prepareAt = never
		w.prepareAhead(1)
		return nil
	}
	return w.rotate(w.plan(need))
}

// Begin starts the record of one transaction. The caller has reserved room for it.
func (w *Writer) Begin() {
	w.b.SetEarly(false)
	w.b.Begin()
}

// Write appends p to the record. Flush returns any error.
func (w *Writer) Write(p []byte) {
	for {
		if p = w.b.Write(p, w.mu.seg.durable.Load()); len(p) == 0 {
			return
		}
		w.spill()
	}
}

// End finishes the record.
func (w *Writer) End() {
	w.b.End(w.mu.seg.durable.Load())
	w.end = boundary{offset: w.b.Offset(), chain: w.b.Chain()}
	w.spill()
}

// spill writes out what is built once it reaches spillSize. No frame is open.
func (w *Writer) spill() {
	if p, _ := w.b.Sealed(); len(p) >= spillSize {
		// The error poisons the writer; Flush returns it.
		_ = w.writeOut()
	}
}

// Flush writes out what has been built.
func (w *Writer) Flush() error {
	if p, _ := w.b.Sealed(); len(p) == 0 || w.failed.Load() {
		return w.Err()
	}
	return w.writeOut()
}

// errOverrun says that the caller wrote a record without a Reserve for it.
var errOverrun = errors.New("log: the record is larger than its reservation")

// writeOut writes the finished frames to the current segment.
func (w *Writer) writeOut() error {
	p, offset := w.b.Sealed()
	w.b.Reset()
	seg := w.mu.seg
	if w.failed.Load() {
		return w.Err()
	}
	invariant.Check(offset+int64(len(p)) <= seg.size, "%d bytes at %d of a segment of %d", len(p), offset, seg.size)
	if offset+int64(len(p)) > seg.size {
		return w.fail(errOverrun)
	}
	if _, err := seg.file.WriteAt(p, offset); err != nil {
		return w.fail(w.o.inFile(err, "write", seg.ref.File))
	}
	at := offset + int64(len(p))
	w.mu.Lock()
	seg.flushed = reach{at, w.end}
	w.mu.unsynced += int64(len(p))
	w.mu.stats.BytesWritten += int64(len(p))
	many := w.mu.unsynced >= manyUnsynced && !seg.announced
	w.mu.Unlock()
	if many {
		seg.announced = true
		seg.file.WillWrite(at, seg.size-at)
	}
	return nil
}

// enter makes seg the current segment. The one before becomes pending. enter returns how
// many are pending. The caller holds the commit mutex.
func (w *Writer) enter(seg *segment) (pending int) {
	w.b.Switch(seg.ref.Salt, seg.aead)
	w.limit = seg.limit()
	w.end = startOf(seg.ref.Salt)
	w.prepareAt = record.Start + (seg.size-record.Start)/2
	w.mu.Lock()
	defer w.mu.Unlock()
	if full := w.mu.seg; full != nil {
		w.mu.stats.Rotations++
		w.noteSyncLocked()
		w.mu.pending = append(w.mu.pending, full)
	}
	w.mu.seg, w.mu.tip = seg, seg.ref.Number
	w.mu.unprepared = false
	w.mu.live = append(w.mu.live, seg.inDirectory())
	return len(w.mu.pending)
}

// never is an offset that no frame reaches.
const never = math.MaxInt64
