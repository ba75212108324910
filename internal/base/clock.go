package base

import (
	"math"
	"time"
)

// A Clock tells the time. Databases take theirs as a value, so that tests
// can set it, stop it and turn it back.
type Clock interface {
	Now() time.Time
}

// TimeMsMax is the highest time that a Clock can show, in milliseconds of Unix
// time. A commit or an edit of a later one is corruption.
const TimeMsMax = math.MaxInt64

// SystemClock is the clock of the machine.
type SystemClock struct{}

// Now returns the machine's time.
func (SystemClock) Now() time.Time { return time.Now() }
