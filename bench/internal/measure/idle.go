package measure

import "time"

// idleCPUShare is the share of an interval that an idle process may use a processor. The
// harness and the stores wake up to check for work.
const idleCPUShare = 0.10

// idleInterval returns the time between two checks: a part of quiet, so that
// WaitIdle waits little longer than quiet.
func idleInterval(quiet time.Duration) time.Duration { return min(quiet/4, 100*time.Millisecond) }

// WaitIdle waits until this process has been idle for the time quiet. In that time it did
// not compute, wrote nothing, and the size of dir did not change. It returns the time until
// the idle time began. After limit it gives up and returns false. Where the usage of a
// process is unknown, only the directory counts.
func WaitIdle(dir string, quiet, limit time.Duration) (time.Duration, bool) {
	began, interval := time.Now(), idleInterval(quiet)
	busyUntil := began
	usage, space := ProcessUsage(), spaceNow(dir)
	for {
		time.Sleep(interval)
		usageNow, now := ProcessUsage(), spaceNow(dir)
		if now != space || isBusy(usageNow.Sub(usage), interval) {
			busyUntil = time.Now()
		}
		usage, space = usageNow, now
		if time.Since(busyUntil) >= quiet {
			return busyUntil.Sub(began), true
		}
		if time.Since(began) >= limit {
			return limit, false
		}
	}
}

// isBusy returns whether the usage in an interval means that the process worked.
// WrittenBytes is negative after the removal of a file with dirty pages, which
// is work too.
func isBusy(used Usage, interval time.Duration) bool {
	return used.Known && (used.WrittenBytes != 0 || used.CPUSeconds > idleCPUShare*interval.Seconds())
}

// spaceNow measures dir. A walk may fail beside a working store. It then returns
// an empty Space, so that the next walk shows a change.
func spaceNow(dir string) Space {
	space, err := DirSpace(dir)
	if err != nil {
		return Space{}
	}
	return space
}
