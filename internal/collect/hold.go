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
}

// decideHold decides for how long the collector waits for readers, or for a gathering. In the
// meantime it only drops files without live values.
func decideHold(in holdInputs) time.Duration {
	if in.load == work.Busy || in.scarce { // garbage grows, or its space is needed
		return 0
	}
	waits := in.reading || in.gathers && in.load == work.Idle
	if !waits || in.quiet >= holdMax {
		return 0
	}
	return min(holdEvery, holdMax-in.quiet)
}

// holdFor returns for how long the collector waits under a load.
func (c *Collector) holdFor(now work.Load) time.Duration {
	begun, open := c.store.Reading()
	return decideHold(holdInputs{
		load:    now,
		scarce:  c.o.Space.Scarce(),
		reading: c.readers.look(begun, open, work.Now()),
		gathers: now == work.Idle && c.o.GatheringDue(),
		quiet:   c.o.Quiet(),
	})
}
