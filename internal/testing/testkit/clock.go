package testkit

import (
	"sync/atomic"
	"time"
)

// A Clock is a clock that stands still until a test turns it.
type Clock struct {
	Ms   atomic.Int64 // the time of the clock, in ms since 1970
	High atomic.Int64 // the highest time that was asked for
}

// ClockStart is a moment in 2026, in ms since 1970.
const ClockStart = 1_790_000_000_000

// NewClock returns a clock that stands at ClockStart.
func NewClock() *Clock {
	c := new(Clock)
	c.Ms.Store(ClockStart)
	return c
}

// Now returns the time of the clock and remembers the highest time it has shown.
func (c *Clock) Now() time.Time {
	ms := c.Ms.Load()
	for {
		high := c.High.Load()
		if ms <= high || c.High.CompareAndSwap(high, ms) {
			return time.UnixMilli(ms)
		}
	}
}

// Seen is the time by which a database judges expiry that asks now: the
// highest this clock has shown, or shows.
func (c *Clock) Seen() uint64 { return uint64(max(c.Ms.Load(), c.High.Load())) }
