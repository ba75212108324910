package stoat

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// A clock is the time of the database, in milliseconds of Unix time: the
// highest that its Clock has ever shown, so that it stands still when the
// Clock goes back and an expired key stays expired. Every commit carries it
// to the log and every edit to the manifest, and recovery takes it from there.
// Before a reader is told that a key has expired, a time at which it has is
// where no crash takes it back.
type clock struct {
	high   atomic.Uint64 // the highest time seen, and clockStopped
	kept   atomic.Uint64 // the highest time that no crash takes back
	saving sync.Mutex    // held to write a time to the manifest, so that they rise
	again  atomic.Uint64 // the time from which on it is worth another try, after one that failed
}

// clockStopped is set in clock.high when Close is about to keep the time for the
// last time: a reader that comes later must not be told of a later one, which
// nobody would keep. No time is so high: recovery takes one for corruption.
const clockStopped = base.TimeMsMax + 1

// keepFree is how many bytes must be free on the device for readers to have the
// time kept. On a full disk the room that the manifest has left is for the edits
// that give space back, and where a file system writes to a new place what is
// overwritten, an edit that finds none would end all commits.
const keepFree = 4 << 20

// keepRetryMs is how long after a failure, as on a full disk, readers do not
// try again to have the time kept.
const keepRetryMs = 1000

// now returns the time.
func (c *clock) now(source Clock) uint64 {
	ms := uint64(max(source.Now().UnixMilli(), 0))
	for {
		high := c.high.Load()
		if ms <= high { // as it is once the clock is stopped
			return high &^ clockStopped
		}
		if c.high.CompareAndSwap(high, ms) {
			return ms
		}
	}
}

// highest returns the highest time seen.
func (c *clock) highest() uint64 { return c.high.Load() &^ clockStopped }

// stop makes the clock stand still for good.
func (c *clock) stop() { c.high.Or(clockStopped) }

// restore raises the clock to a time that was kept.
func (c *clock) restore(ms uint64) {
	c.high.Store(max(c.high.Load(), ms))
	c.kept.Store(max(c.kept.Load(), ms))
}

// keep notes that a time is kept.
func (c *clock) keep(ms uint64) {
	for kept := c.kept.Load(); ms > kept && !c.kept.CompareAndSwap(kept, ms); {
		kept = c.kept.Load()
	}
}

// unsaved reports whether a crash would take time back.
func (c *clock) unsaved() bool { return c.highest() > c.kept.Load() }

// record makes an edit of the manifest durable, and the time with it.
func (d *DB) record(edit manifest.Edit) error {
	d.clock.saving.Lock()
	defer d.clock.saving.Unlock()
	return d.recordLocked(edit)
}

// recordLocked is record. The caller holds saving.
func (d *DB) recordLocked(edit manifest.Edit) error {
	high := d.clock.highest()
	edit.ClockHighMs = manifest.Some(high)
	err := d.manifest.Append(edit)
	if err == nil {
		d.clock.keep(high)
	}
	return err
}

// expired reports whether what expires at a time has done so for the
// transaction. That its own write has, which is not committed, need not be kept:
// its commit will carry the time.
func (tx *Txn) expired(at uint64, own bool) bool {
	if tx.nowMs() < at {
		return false
	}
	if c := &tx.db.clock; !own && at > c.kept.Load() && c.highest() >= c.again.Load() {
		tx.db.keepExpired(at)
	}
	return true
}

// keepExpired makes sure that what has expired at a time stays so after a crash.
// Where the manifest cannot be written, on a full or a failed disk, readers go
// on without that. A read-only database writes nothing.
func (d *DB) keepExpired(at uint64) {
	c := &d.clock
	c.saving.Lock()
	defer c.saving.Unlock()
	high := c.highest()
	switch {
	case at <= c.kept.Load() || high < c.again.Load():
		return
	case d.opts.ReadOnly || d.manifest.Err() != nil:
		c.again.Store(math.MaxUint64)
		return
	}
	if free, err := d.fs.Free(d.dir); err == nil && free < keepFree {
		c.again.Store(high + keepRetryMs)
		return
	}
	if err := d.recordLocked(manifest.Edit{}); err != nil {
		c.again.Store(high + keepRetryMs)
		if d.manifest.Err() != nil && !d.closed.Load() {
			d.backgroundFailed(fmt.Errorf("keep the time: %w", err))
		}
	}
}
