package state

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/work"
)

// A clock is the time of the database, in milliseconds of Unix time. It is the
// highest time that Options.Clock has shown: it stands still when that goes back,
// so an expired key stays expired.
//
// Every commit carries the time to the log and every edit to the manifest, and
// recovery takes it from there. Before a reader reports that a key has expired,
// a time after the expiry is durable.
type clock struct {
	high  atomic.Uint64 // the highest time seen, and clockStopped
	kept  atomic.Uint64 // the highest durable time
	retry atomic.Int64  // after a failure, when to try again to make one durable, by work.Now
	// lead is the most by which the time has been ahead of work.Now, in milliseconds.
	lead atomic.Int64

	saving lock.Mutex[lock.Saving] // held to write a time to the manifest, so that they rise
}

// clockStopped is a bit of clock.high. It is set when Close is about to save the
// time for the last time: no reader may see a later one. No time has the bit,
// because recovery takes such a time for corruption.
const clockStopped = base.TimeMsMax + 1

const (
	// saveFree is the number of free bytes from which readers save the time. Below it,
	// the remaining room is for edits that free space: if such an edit finds no room, it
	// ends all commits.
	saveFree = 4 << 20
	// saveRetry is the time between a failure to save the time and the next try. The
	// clock of the database may stand still meanwhile.
	saveRetry = time.Second
)

// now returns the time.
func (c *clock) now(source base.Clock) uint64 {
	ms := base.NowMs(source)
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

// restore raises the clock to a time that was durable.
func (c *clock) restore(ms uint64) {
	for high := c.high.Load(); ms > high && !c.high.CompareAndSwap(high, ms); {
		high = c.high.Load()
	}
	c.keep(ms)
}

// keep notes that a time is durable.
func (c *clock) keep(ms uint64) {
	for kept := c.kept.Load(); ms > kept && !c.kept.CompareAndSwap(kept, ms); {
		kept = c.kept.Load()
	}
}

// Now returns the time by which expiry is judged. It never goes back.
func (s *Store) Now() uint64 { return s.clock.now(s.o.Clock) }

// StoodMs returns for how many milliseconds the clock has stood still while real time went
// on. Added to the time, it tells the age of tables. It does not fall while the clock stands.
func (s *Store) StoodMs() uint64 {
	c := &s.clock
	now := c.ahead()
	for {
		lead := c.lead.Load()
		if now <= lead {
			return uint64(lead - now)
		}
		if c.lead.CompareAndSwap(lead, now) {
			return 0
		}
	}
}

// ahead returns by how many milliseconds the time is ahead of work.Now.
func (c *clock) ahead() int64 {
	return int64(c.highest()) - work.Now()/int64(time.Millisecond)
}

// StopClock makes the clock stand still for good.
func (s *Store) StopClock() { s.clock.high.Or(clockStopped) }

// RestoreClock raises the clock to a time that recovery found.
func (s *Store) RestoreClock(ms uint64) { s.clock.restore(ms) }

// TimeKept notes that a synced commit made a time durable.
func (s *Store) TimeKept(ms uint64) { s.clock.keep(ms) }

// TimeUnsaved reports whether a crash would take the clock back.
func (s *Store) TimeUnsaved() bool { return s.clock.highest() > s.clock.kept.Load() }

// Record makes an edit of the manifest durable, and the time with it. It changes
// no view.
func (s *Store) Record(edit manifest.Edit) error {
	s.clock.saving.Lock()
	defer s.clock.saving.Unlock()
	return s.recordLocked(edit)
}

func (s *Store) recordLocked(edit manifest.Edit) error {
	high := s.clock.highest()
	edit.ClockHighMs = manifest.Some(high)
	err := s.manifest.Append(edit)
	if err == nil {
		s.clock.keep(high)
	}
	return err
}

// failed reports whether a failure to save the time is too recent for another try.
func (c *clock) failed() bool {
	retry := c.retry.Load()
	return retry != 0 && work.Now() < retry
}

// KeepExpired makes durable that a time has come at which a value expired, before
// a reader reports that. On a full or failed disk readers go on without it. A
// read-only database writes nothing.
func (s *Store) KeepExpired(at uint64) {
	c := &s.clock
	if at <= c.kept.Load() || c.failed() {
		return
	}
	c.saving.Lock()
	defer c.saving.Unlock()
	switch {
	case at <= c.kept.Load() || c.failed():
		return
	case s.o.ReadOnly || s.manifest.Err() != nil:
		c.retry.Store(math.MaxInt64)
		return
	}
	if free, err := s.o.FS.Free(s.o.Dir); err == nil && free < saveFree {
		c.retry.Store(work.Now() + int64(saveRetry))
		return
	}
	if err := s.recordLocked(manifest.Edit{}); err != nil {
		c.retry.Store(work.Now() + int64(saveRetry))
		if s.manifest.Err() != nil && !s.closed.Load() {
			s.hooks.Failed(fmt.Errorf("keep the time: %w", err))
		}
	}
}
