package log

import (
	"slices"

	"github.com/stoatdb/stoat/internal/mutant"
)

// Sync makes everything durable that was flushed before the call. Two Syncs may
// run at once, and beside the building and flushing of the next group.
//
// The synced transactions are always a prefix of the log. After one Sync has failed, a
// later one returns that error even if its own sync of the file succeeds.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	target, end := w.mu.seg, w.mu.seg.flushed
	for {
		if w.mu.err != nil {
			return w.mu.err
		}
		if target.durable.Load() >= end.offset {
			return nil
		}
		// Full segments come first, and target may be one of them.
		if len(w.mu.pending) > 0 && !mutant.On(mutant.SyncOvertakes) {
			w.mu.changed.Wait()
			continue
		}
		if lane := slices.Index(target.busy[:], false); lane >= 0 {
			return w.syncLaneLocked(target, lane, end)
		}
		w.mu.changed.Wait()
	}
}

const (
	// aheadPart is the part of the largest segment, as a divisor, that may be written before
	// SyncAhead starts a sync.
	aheadPart = 4
	// preparePart is the part that may be written before SyncAhead prepares the next segments,
	// and preparedMax is how many. A preparation waits for the device, while commits that do
	// not wait fill one segment after the other.
	preparePart = 16
	preparedMax = 2
)

// SyncAhead starts background jobs if much was written since the last sync began: a Sync, and
// the preparation of the next segments. Commits that do not wait for the device call it.
// Otherwise the next commit that does wait would sync the whole segment at once.
func (w *Writer) SyncAhead() {
	w.mu.Lock()
	start := !w.mu.ahead && w.mu.unsynced > w.o.SegmentSizeMax/aheadPart && w.mu.err == nil
	w.mu.ahead = w.mu.ahead || start
	prepare := w.mu.unsynced > w.o.SegmentSizeMax/preparePart && w.mu.err == nil &&
		!w.mu.preparing && !w.mu.unprepared && len(w.mu.next) < preparedMax
	w.mu.Unlock()
	if prepare {
		w.prepareAhead(preparedMax)
	}
	if !start {
		return
	}
	w.o.Go(func() {
		_ = w.Sync() // the error poisons the writer, and the next Flush returns it
		w.mu.Lock()
		defer w.mu.Unlock()
		w.mu.ahead = false
		w.mu.changed.Broadcast()
	})
}

// syncLaneLocked syncs seg through an idle lane, releasing mu meanwhile.
func (w *Writer) syncLaneLocked(seg *segment, lane int, end reach) error {
	seg.busy[lane] = true
	w.noteSyncLocked()
	w.mu.Unlock()
	err := seg.lanes[lane].SyncData()
	if err != nil && mutant.On(mutant.RetrySync) {
		err = seg.lanes[lane].SyncData()
	}
	w.mu.Lock()
	seg.busy[lane] = false
	w.mu.changed.Broadcast()
	if w.mu.ahead && mutant.On(mutant.SyncAheadTooFar) {
		end = seg.flushed
	}
	if seg.retired && !seg.inUse() {
		seg.close()
	}
	if err != nil && w.mu.ahead && mutant.On(mutant.SyncAheadFails) {
		seg.syncedLocked(end)
	} else if err != nil {
		_ = w.failLocked(w.o.inFile(err, "sync", seg.ref.File)) // the error is in w.mu.err now
	} else if w.mu.err == nil {
		seg.syncedLocked(end)
	}
	if seg.durable.Load() >= end.offset {
		return nil
	}
	return w.mu.err
}

// noteSyncLocked counts a starting sync and updates the mean of bytes per sync.
func (w *Writer) noteSyncLocked() {
	w.mu.stats.Syncs++
	if w.mu.meanSync == 0 {
		w.mu.meanSync = w.mu.unsynced
	}
	w.mu.meanSync += (w.mu.unsynced - w.mu.meanSync) / 8
	w.mu.unsynced = 0
}

// syncAll writes out what has been built and makes all of the current segment
// durable. The segments before are durable. The caller holds the commit mutex.
func (w *Writer) syncAll() error {
	if err := w.Flush(); err != nil {
		return err
	}
	w.mu.Lock()
	seg, end := w.mu.seg, w.mu.seg.flushed
	w.noteSyncLocked()
	w.mu.Unlock()
	err := seg.file.SyncData()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		return w.failLocked(w.o.inFile(err, "sync", seg.ref.File))
	}
	if w.mu.err != nil {
		return w.mu.err
	}
	seg.syncedLocked(end)
	return nil
}

// retireLocked closes the files of seg when no lane uses them any more.
func (w *Writer) retireLocked(seg *segment) {
	seg.retired = true
	if !seg.inUse() {
		seg.close()
	}
}
