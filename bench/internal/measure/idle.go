package measure

import "time"

// What a process may do in an interval and still count as idle: the harness
// itself wakes up to look, and so do the stores.
const (
	idleInterval     = 100 * time.Millisecond
	idleCPUShare     = 0.10
	idleWrittenBytes = 64 << 10
)

// WaitIdle waits until the process has neither computed nor written for
// quiet, which means that its background work is done, and returns the time
// until that quiet began. It gives up after limit and returns false. Where
// the system does not tell what a process uses, it waits for quiet alone.
func WaitIdle(quiet, limit time.Duration) (time.Duration, bool) {
	began := time.Now()
	busyUntil := began
	last := ProcessUsage()
	if !last.Known {
		time.Sleep(quiet)
		return 0, true
	}
	for {
		time.Sleep(idleInterval)
		now := ProcessUsage()
		used := now.Sub(last)
		last = now
		if used.CPUSeconds > idleCPUShare*idleInterval.Seconds() || used.WrittenBytes > idleWrittenBytes {
			busyUntil = time.Now()
		}
		if time.Since(busyUntil) >= quiet {
			return busyUntil.Sub(began), true
		}
		if time.Since(began) >= limit {
			return limit, false
		}
	}
}
