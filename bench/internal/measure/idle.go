package measure

import "time"

// idleCPUShare is the part of an interval that a process may compute and
// still count as idle: the harness itself wakes up to look, and so do the
// stores.
const idleCPUShare = 0.10

// idleInterval is how long to wait between two looks: a part of the quiet that
// is waited for, so that not much more than that passes.
func idleInterval(quiet time.Duration) time.Duration { return min(quiet/4, 100*time.Millisecond) }

// WaitIdle waits until for quiet the process has not computed, no byte was
// written and the size of dir stood still, which means that the background
// work is done, and returns the time until that quiet began. It gives up after
// limit and returns false. Where the system does not tell what a process uses,
// the directory alone counts.
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

// isBusy returns whether a process used that much in an interval because it
// was at work. A file that is removed before it was written out takes back
// what was written: less than nothing is work too.
func isBusy(used Usage, interval time.Duration) bool {
	return used.Known && (used.WrittenBytes != 0 || used.CPUSeconds > idleCPUShare*interval.Seconds())
}

// spaceNow measures dir. While a store works in it a walk may fail; that
// counts as an empty directory, and the next walk as a change.
func spaceNow(dir string) Space {
	space, err := DirSpace(dir)
	if err != nil {
		return Space{}
	}
	return space
}
