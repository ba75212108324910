package collect

import (
	"time"

	"github.com/stoatdb/stoat/internal/work"
)

// After a load, and when a program has started, transactions often read much. The garbage
// of the load can wait for them: without commits it does not grow. Collection would take a
// processor, the device and the caches from them.
const (
	// holdMax is the time since the last commit after which collection begins even beside
	// transactions that read.
	holdMax = 10 * time.Second
	// holdEvery is the time between two looks at what transactions read.
	holdEvery = 500 * time.Millisecond
)

// readersSeen is what the collector knows about transactions that read.
type readersSeen struct {
	begun   uint64 // how many had begun at the last look
	at      int64  // of work.Now, 0 before the first look
	reading bool   // since the look before, some have read
	// since is when the collector began to wait, of work.Now, and 0 if it does not wait.
	since int64
}

// look notes how many transactions have begun to read and how many still do. It returns
// whether some have read since the look before. Looks in close succession count as one.
func (r *readersSeen) look(begun uint64, open int, now int64) (reading bool) {
	if r.at == 0 || now-r.at >= int64(holdEvery) {
		r.reading = begun != r.begun || open > 0
		r.begun, r.at = begun, now
	}
	return r.reading
}

// holdInputs is what the collector knows before it collects.
type holdInputs struct {
	load    work.Load
	scarce  bool          // space is scarce
	reading bool          // transactions read
	gathers bool          // a gathering is due, which needs no collection before
	quiet   time.Duration // the time since the last commit
	waited  time.Duration // for how long the collector has waited already
}

// decideHold decides for how long the collector waits for readers, or for a gathering. In the
// meantime it only drops files without live values.
//
// A commit ends the wait: garbage may grow with each of many small commits, however far apart
// they are.
func decideHold(in holdInputs) time.Duration {
	if in.load == work.Busy || in.scarce || in.quiet < in.waited {
		return 0
	}
	waits := in.reading || in.gathers && in.load == work.Idle
	if !waits || in.quiet >= holdMax {
		return 0
	}
	return min(holdEvery, holdMax-in.quiet)
}

// holdFor returns for how long the collector waits under a load.
func (c *Collector) holdFor(load work.Load) time.Duration {
	r, now := &c.readers, work.Now()
	begun, open := c.store.Reading()
	in := holdInputs{
		load:    load,
		scarce:  c.o.Space.Scarce(),
		reading: r.look(begun, open, now),
		gathers: load == work.Idle && c.o.GatheringDue(),
		quiet:   c.o.Quiet(),
	}
	if r.since != 0 {
		in.waited = time.Duration(now - r.since)
	}
	hold := decideHold(in)
	if hold > 0 && r.since == 0 {
		r.since = now
	}
	return hold
}
