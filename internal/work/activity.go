package work

import (
	"math"
	"sync/atomic"
	"time"
)

// A Load says how busy a database is with commits, as background jobs see it.
type Load uint8

const (
	// Busy: commits arrive.
	Busy Load = iota
	// Pausing: no commit arrived for pauseAfter. A bulk load may have ended, and
	// the runs that it left in level 0 slow down every read.
	Pausing
	// Idle: no commit arrived for IdleAfter.
	Idle
)

const (
	// pauseAfter is the time without a commit after which a database pauses.
	pauseAfter = 100 * time.Millisecond
	// IdleAfter is the time without a commit after which a database is idle.
	IdleAfter = time.Second
)

// An Activity knows when the last commit was published.
type Activity struct {
	last atomic.Int64 // of Now; 0 before the first commit, unless Open set it
}

// Note notes a commit and returns the time of it.
func (a *Activity) Note() int64 {
	now := Now()
	a.last.Store(now)
	return now
}

// Open notes that a database was opened. The load is Pausing at once, without a time of Busy
// before: many programs read much when they start.
func (a *Activity) Open() {
	last := Now() - int64(pauseAfter)
	if last == 0 {
		last-- // 0 is for no commit
	}
	a.last.Store(last)
}

// Quiet returns the time since the last commit, or since Open.
func (a *Activity) Quiet() time.Duration {
	if last := a.last.Load(); last != 0 {
		return time.Duration(Now() - last)
	}
	return math.MaxInt64
}

// Load returns the load, and after how much more time without a commit it will
// fall. That is 0 when the database is idle.
func (a *Activity) Load() (now Load, falls time.Duration) { return loadOf(a.Quiet()) }

// loadOf returns the load after that much time without a commit.
func loadOf(quiet time.Duration) (now Load, falls time.Duration) {
	switch {
	case quiet < pauseAfter:
		return Busy, pauseAfter - quiet
	case quiet < IdleAfter:
		return Pausing, IdleAfter - quiet
	}
	return Idle, 0
}
