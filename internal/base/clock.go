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

// NowMs returns the time of c in milliseconds of Unix time, at least 0.
func NowMs(c Clock) uint64 { return uint64(max(0, c.Now().UnixMilli())) }

// TimeMsMax is the latest time that a Clock can return, in milliseconds of Unix
// time. A later time in a commit or a manifest edit is corruption.
const TimeMsMax = math.MaxInt64

// ExpiryMs returns an expiry time that is not zero, in milliseconds of Unix time. It rounds
// up, and takes times that do not fit for the nearest that do.
func ExpiryMs(t time.Time) int64 {
	// UnixMilli overflows outside of these bounds.
	switch {
	case t.Before(time.UnixMilli(1)):
		return 1
	case t.After(time.UnixMilli(TimeMsMax - 1)):
		return TimeMsMax
	}
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// ExpiryTime returns an expiry time in milliseconds of Unix time as a Time, and the zero Time
// for 0.
func ExpiryTime(ms uint64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms))
}

// SystemClock is the clock of the machine.
type SystemClock struct{}

// Now returns the machine's time.
func (SystemClock) Now() time.Time { return time.Now() }
