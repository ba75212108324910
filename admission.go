package stoat

import (
	"sync"
	"sync/atomic"
	"time"
)

// waitingMax is how many memtables may wait to be flushed before commits wait
// for them. One is being flushed while the next one fills.
const waitingMax = 2

// delayMax bounds how long one group is held up for the sake of compaction,
// so that a wait is many short ones and never a stall.
const delayMax = 20 * time.Millisecond

// An admission holds commits up when they outrun the work behind them. As long
// as compaction falls behind, each group waits in proportion to its size and to
// how far; when memory for memtables is used up, commits wait until a flush
// has freed some, and fail with its error if it cannot.
type admission struct {
	db *DB

	// nsPerKiB is by how much writing is slowed down.
	nsPerKiB atomic.Int64

	mu       sync.Mutex
	ended    sync.Cond // a flush has ended
	flushes  uint64    // how many have
	flushing bool
	err      error // of the last one

	waits  atomic.Int64 // how often a group waited
	waited atomic.Int64 // nanoseconds in all
}

func (a *admission) init(d *DB) {
	a.db = d
	a.ended.L = &a.mu
}

// admit returns nil when about so many bytes may be written. The caller leads
// a group and holds no lock.
func (a *admission) admit(bytes int64) error {
	ns := a.nsPerKiB.Load() * bytes >> 10
	if ns == 0 && !a.full(bytes) {
		return nil
	}
	started := time.Now()
	if ns > 0 {
		time.Sleep(min(time.Duration(ns), delayMax))
	}
	err := a.stall(bytes)
	a.waits.Add(1)
	a.waited.Add(int64(time.Since(started)))
	return err
}

// stall is wait, with events around it.
func (a *admission) stall(bytes int64) error {
	if !a.full(bytes) {
		return nil
	}
	started := time.Now()
	a.db.emit(StallBegin{})
	err := a.wait(bytes)
	a.db.emit(StallEnd{Took: time.Since(started)})
	return err
}

// full reports whether so many bytes would need a memtable more than there may
// be.
func (a *admission) full(bytes int64) bool {
	v := a.db.view.Load()
	return len(v.tables) > waitingMax && v.tables[0].Bytes()+bytes > a.db.opts.MemtableSize
}

// wait waits until flushes have made room, or returns the error of one that
// began after the call and failed.
func (a *admission) wait(bytes int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.full(bytes) {
		if err := a.db.commits.poisoned(); err != nil {
			return err
		}
		next := a.flushes + 1
		if a.flushing && a.err != nil {
			next++ // the one under way may have met what is over by now
		}
		a.db.background.flusher.wake()
		for a.flushes < next && a.db.commits.poisoned() == nil && a.full(bytes) {
			a.ended.Wait()
		}
		if a.err != nil && a.full(bytes) {
			return a.err
		}
	}
	return nil
}

// begin notes that a flush begins.
func (a *admission) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flushing = true
}

// end tells those who wait how a flush ended.
func (a *admission) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err, a.flushing = err, false
	a.flushes++
	a.ended.Broadcast()
}

// interrupt makes those who wait look at what has become of the database.
func (a *admission) interrupt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended.Broadcast()
}

// Compaction that is behind by debtUnit bytes slows writing to debtRate, half
// as far to twice that, and so on.
const (
	debtUnit = 512 << 20 // bytes
	debtRate = 64 << 20  // bytes a second
)

// setDebt says how far compaction is behind.
func (a *admission) setDebt(bytes int64) {
	const nsPerKiB = int64(time.Second) / (debtRate >> 10)
	a.nsPerKiB.Store(int64(float64(bytes) / debtUnit * float64(nsPerKiB)))
}
