package stoat

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
)

// waitingMax is how many memtables may wait to be flushed before commits wait
// for them. One is being flushed while the next one fills.
const waitingMax = 2

// Beyond paceFrom of the memory for memtables, commits are slowed down, the
// more the fuller it is, and at paceFull to the rate of the flushes: so they
// wait many times a little, and seldom for the end of a flush.
const (
	paceFrom = 0.5
	paceFull = 0.9
)

const (
	// napMin is the shortest wait that is worth a sleep; shorter ones add up.
	napMin = 200 * time.Microsecond
	// napMax bounds one wait, so that slowing down is never a stall.
	napMax = 50 * time.Millisecond
)

// An admission holds commits up when they outrun the work behind them. As long
// as flushes, compaction or collection fall behind, each group waits in
// proportion to its size and to how far; when memory for memtables is used up,
// commits wait until a flush has freed some, and fail with its error if it
// cannot.
type admission struct {
	db *DB

	// nsPerKiB is by how much writing is slowed down for the sake of
	// compaction and collection, flushNsPerKiB the time that flushes take,
	// and freeNsPerKiB that which collection takes for what it frees.
	nsPerKiB, flushNsPerKiB, freeNsPerKiB atomic.Int64

	gauge         garbageGauge // guarded by installing
	lastCollected time.Time    // guarded by compacting

	mu       sync.Mutex
	ended    sync.Cond // a flush has ended
	flushes  uint64    // how many have
	flushing bool
	err      error // of the last one

	next atomic.Int64 // when what was written is paid for, in Unix nanoseconds

	waits  atomic.Int64 // how often a group waited
	waited atomic.Int64 // nanoseconds in all
}

func (a *admission) init(d *DB) {
	a.db = d
	a.ended.L = &a.mu
}

// admit returns nil when about so many bytes may be written: when what was
// written before has been paid for, and there is memory. The caller leads a
// group and holds no lock.
func (a *admission) admit(bytes int64) error {
	started := time.Now()
	nap, full := a.owed(started), a.full(bytes)
	if nap < napMin && !full {
		return nil
	}
	time.Sleep(min(nap, napMax))
	err := a.stall(bytes)
	a.waits.Add(1)
	a.waited.Add(int64(time.Since(started)))
	return err
}

// owed returns how long it is until what was written is paid for.
func (a *admission) owed(now time.Time) time.Duration {
	if next := a.next.Load(); next > 0 {
		return time.Duration(next - now.UnixNano())
	}
	return 0
}

// charge makes the next groups pay for one of so many bytes. The caller holds
// build.
func (a *admission) charge(bytes int64) {
	ns := a.pace(a.db.view.Load()) * bytes >> 10
	if ns == 0 {
		return
	}
	a.next.Store(max(a.next.Load(), time.Now().UnixNano()) + ns)
}

// pace returns how many nanoseconds a KiB has to wait.
func (a *admission) pace(v *view) int64 {
	ns := a.nsPerKiB.Load()
	if len(v.tables) == 1 {
		return ns
	}
	_, used := v.waiting()
	used += v.tables[0].Bytes()
	fill := float64(used) / float64((waitingMax+1)*a.db.opts.MemtableSize)
	if fill > paceFrom {
		share := min(1, (fill-paceFrom)/(paceFull-paceFrom))
		ns += int64(share * float64(a.flushNsPerKiB.Load()))
	}
	return ns
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

// end tells those who wait how a flush of so many bytes of memtables ended.
func (a *admission) end(bytes int64, took time.Duration, err error) {
	if err == nil && bytes > 1<<20 {
		ns := int64(took) / (bytes >> 10)
		if old := a.flushNsPerKiB.Load(); old != 0 {
			ns = (3*old + ns) / 4
		}
		a.flushNsPerKiB.Store(ns)
	}
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

// Beyond garbageFrom of all values being garbage, writing is slowed down, in
// proportion: at garbageFull to what collection was measured to free in the
// same time, since overwriting makes as much garbage as it writes.
const (
	garbageFrom = 0.16
	garbageFull = 0.21
	// garbagePaceMax bounds by how much slower than collection writing may
	// become.
	garbagePaceMax = 4
	// freeRate is what collection is taken to free, in bytes a second, before
	// it was measured.
	freeRate = 128 << 20
)

// A garbageGauge estimates how much of the values is garbage: what compaction
// has found to be, and what it will find once it merges level 0, by the part of
// level 0 that turned out to replace something the last times. It believes at
// once that this grows, and by and by that it falls.
type garbageGauge struct {
	newest, garbage uint64  // as of the last edit
	replacing       float64 // part of what left level 0
}

// share takes note of a version and returns what part of its values is garbage.
func (g *garbageGauge) share(v *manifest.Version) float64 {
	garbage, all := garbageOf(v)
	newest := compact.NewestValues(v)
	if newest < g.newest {
		// What was known to be garbage before has nothing to do with it: an edit
		// that empties level 0 drops no value file.
		part := min(1, float64(garbage-min(garbage, g.garbage))/float64(g.newest-newest))
		g.replacing = max(part, (g.replacing+part)/2)
	}
	g.newest, g.garbage = newest, garbage
	if all == 0 {
		return 0
	}
	return (float64(garbage) + g.replacing*float64(newest)) / float64(all)
}

// collected says what a collection has freed, and in which time. Where one
// follows the other, what lies between them counts: the merging that finds
// the garbage is part of the price.
func (a *admission) collected(freed int64, started time.Time) {
	now := time.Now()
	since := started
	if started.Sub(a.lastCollected) < time.Second {
		since = a.lastCollected
	}
	a.lastCollected = now
	if freed < 1<<20 {
		return // too little to tell
	}
	ns := int64(now.Sub(since)) / (freed >> 10)
	if old := a.freeNsPerKiB.Load(); old != 0 {
		ns = (7*old + ns) / 8
	}
	a.freeNsPerKiB.Store(ns)
}

// setDebt says how far compaction is behind, by the version that was just
// installed. The caller holds installing.
func (a *admission) setDebt(v *manifest.Version, debt int64) {
	const second = float64(time.Second)
	ns := float64(debt) / debtUnit * second / (debtRate >> 10)
	share := (a.gauge.share(v) - garbageFrom) / (garbageFull - garbageFrom)
	if _, all := garbageOf(v); all > uint64(4*a.db.opts.MemtableSize) {
		free := float64(a.freeNsPerKiB.Load())
		if free == 0 {
			free = second / (freeRate >> 10)
		}
		ns += min(max(0, share), garbagePaceMax) * free
	}
	a.nsPerKiB.Store(int64(ns))
}
