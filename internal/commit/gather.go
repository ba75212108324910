package commit

import (
	"runtime"
	"slices"
	"time"
)

const (
	// A leader waits for one more request for at most a gatherQuiet-th of a sync, and for
	// all of them for at most one sync. A longer wait costs more than the sync that it may
	// save. gatherLooks is how often the leader looks at most.
	gatherQuiet = 4
	gatherLooks = 2000
)

// awaitsOthers reports whether a leader lets other requests join before it takes the queue.
// It does so if it expects others, and the group waits for the device. Without a sync, the
// leader would only lose its processor, for ten milliseconds beside busy goroutines.
func (c *Committer) awaitsOthers() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.expected > 1 || c.Line.Len() > 0) && slices.ContainsFunc(c.queue, (*Request).Sync)
}

// gather gives the members of the last group a moment to come back, and the updates that take
// turns a moment to be applied. So one sync serves all of them. Otherwise those that come back
// first would begin the next sync, and all others would wait for its end.
func (c *Committer) gather() {
	runtime.Gosched()
	sync := time.Duration(c.lastSync.Load())
	started := time.Now()
	grown, most := started, 0
	for range gatherLooks {
		n, expected := c.gathered()
		now := time.Now()
		if n > most {
			grown, most = now, n
		}
		if n >= expected || now.Sub(grown) > sync/gatherQuiet || now.Sub(started) > sync {
			return
		}
		runtime.Gosched()
	}
}

// gathered returns how many requests the queue has, and how many it is expected to get. The
// updates that take turns will come into the queue, too. Without those, a queue of besideBytes
// is worth a sync of its own.
func (c *Committer) gathered() (n, expected int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = len(c.queue)
	if c.early == 0 && c.queueBytes >= c.beside {
		return n, n
	}
	return n, max(c.expected, n+c.Line.Len())
}
