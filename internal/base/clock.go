package base

import "time"

// A Clock tells the time. Databases take theirs as a value, so that tests
// can set it, stop it and turn it back.
type Clock interface {
	Now() time.Time
}

// SystemClock is the clock of the machine.
type SystemClock struct{}

// Now returns the machine's time.
func (SystemClock) Now() time.Time { return time.Now() }
