package base

import (
	"math"
	"time"
)

// A Clock tells the time. A database takes its clock as a value, so that tests
// can set it, stop it and turn it back.
type Clock interface {
	Now() time.Time
}

// TimeMsMax is the latest time that a Clock can return, in milliseconds of Unix
// time. A later time in a commit or a manifest edit is corruption.
const TimeMsMax = math.MaxInt64

// SystemClock is the clock of the machine.
type SystemClock struct{}

// Now returns the machine's time.
func (SystemClock) Now() time.Time { return time.Now() }
