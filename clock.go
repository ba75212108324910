package stoat

import "sync/atomic"

// A clock is the time of the database, in milliseconds of Unix time: the
// highest that its Clock has ever shown, so that it stands still when the
// Clock goes back and an expired key stays expired. Every commit carries it
// to the log, and recovery takes it from there.
type clock struct {
	high atomic.Uint64 // the highest time seen
	kept atomic.Uint64 // the highest time that is in the log or the manifest
}

// now returns the time.
func (c *clock) now(source Clock) uint64 {
	ms := uint64(max(source.Now().UnixMilli(), 0))
	for {
		high := c.high.Load()
		if ms <= high {
			return high
		}
		if c.high.CompareAndSwap(high, ms) {
			return ms
		}
	}
}

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

// unsaved returns the time if it is higher than what is kept, or 0.
func (c *clock) unsaved() uint64 {
	if high := c.high.Load(); high > c.kept.Load() {
		return high
	}
	return 0
}
