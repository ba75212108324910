package stoat

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"
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
	// napMax bounds one wait, so that slowing down is never a stall, and for
	// every napBytes that are to be written another one.
	napMax   = 50 * time.Millisecond
	napBytes = 1 << 20
	// owedMax bounds what is owed: what was behind once is not paid for long
	// after it was made up for.
	owedMax = 5 * time.Second
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

	gauge         spaceGauge
	tableMax      atomic.Int64 // see memtableMax
	lastCollected time.Time    // guarded by collecting

	mu       sync.Mutex
	ended    sync.Cond // a flush has ended
	flushes  uint64    // how many have
	flushing bool
	err      error // of the last one

	next atomic.Int64 // when what was written is paid for, of monotonic

	waits  atomic.Int64 // how often a group waited
	waited atomic.Int64 // nanoseconds in all
}

func (a *admission) init(d *DB) {
	a.db = d
	a.ended.L = &a.mu
	a.tableMax.Store(d.opts.MemtableSize)
}

// admit returns nil when about so many bytes may be written: when what was
// written before has been paid for, and there is memory. The caller leads a
// group and holds no lock. When ctx is done before that, admit returns its error.
func (a *admission) admit(ctx context.Context, bytes int64) error {
	started := time.Now()
	nap, full := a.owed(), a.full(bytes)
	if nap < napMin && !full {
		return nil
	}
	err := a.sleep(ctx, nap, bytes)
	if err == nil {
		err = a.stall(ctx, bytes)
	}
	a.waits.Add(1)
	a.waited.Add(int64(time.Since(started)))
	return err
}

// admitApart waits until what was written before has been paid for, and then
// charges for so many bytes that a transaction is about to write apart: their
// space is taken before the transaction can be held up as part of a group. The
// wait grows with what is written. The caller holds no lock. When ctx is done
// before the end of the wait, nothing may be written, and nothing is charged for.
func (a *admission) admitApart(ctx context.Context, bytes int64) error {
	ns := a.pace(a.db.view.Load()) * bytes >> 10
	if ns == 0 {
		return nil
	}
	nap := a.owe(ns)
	if nap < napMin {
		return nil
	}
	started := time.Now()
	err := a.sleep(ctx, nap, bytes)
	if err != nil {
		a.owe(-ns)
	}
	a.waits.Add(1)
	a.waited.Add(int64(time.Since(started)))
	return err
}

// owe makes those who come later pay for ns, and returns how long it was before
// until all was paid for.
func (a *admission) owe(ns int64) time.Duration {
	for now := monotonic(); ; {
		next := a.next.Load()
		from := max(next, now)
		if a.next.CompareAndSwap(next, min(from+ns, now+int64(owedMax))) {
			return time.Duration(from - now)
		}
	}
}

// forgive ends the payment for what is no longer behind.
func (a *admission) forgive() {
	if next := a.next.Load(); next > monotonic() {
		a.next.CompareAndSwap(next, 0)
	}
}

// sleep sleeps, as long as it may before so many bytes are written, and until
// the database is closed at most. It returns the error of ctx if that is done
// before.
func (a *admission) sleep(ctx context.Context, nap time.Duration, bytes int64) error {
	timer := time.NewTimer(min(nap, napMax*time.Duration(1+bytes/napBytes)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.db.background.stopped.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// owed returns how long it is until what was written is paid for.
func (a *admission) owed() time.Duration {
	if next := a.next.Load(); next > 0 {
		return time.Duration(next - monotonic())
	}
	return 0
}

// charge makes the next groups pay for one of so many bytes. The caller holds
// build.
func (a *admission) charge(bytes int64) {
	if ns := a.pace(a.db.view.Load()) * bytes >> 10; ns != 0 {
		a.owe(ns)
	}
}

// pace returns how many nanoseconds a KiB has to wait.
func (a *admission) pace(v *view) int64 {
	ns := a.nsPerKiB.Load()
	if len(v.tables) == 1 {
		return ns
	}
	_, used := v.waiting()
	used += v.tables[0].Bytes()
	fill := float64(used) / float64((waitingMax+1)*a.memtableMax())
	if fill > paceFrom {
		share := min(1, (fill-paceFrom)/(paceFull-paceFrom))
		ns += int64(share * float64(a.flushNsPerKiB.Load()))
	}
	return ns
}

// stall is wait, with events around it.
func (a *admission) stall(ctx context.Context, bytes int64) error {
	if !a.full(bytes) {
		return nil
	}
	started := time.Now()
	a.db.emit(StallBegin{})
	err := a.wait(ctx, bytes)
	a.db.emit(StallEnd{Took: time.Since(started)})
	return err
}

// full reports whether so many bytes would need a memtable more than there may
// be, or more memory than that many memtables have: a large transaction brings a
// table of its own, of any size. When nothing waits to be flushed, nothing can
// be gained by waiting, and one larger than everything gets in; what the active
// memtable has room for gets in beside it.
func (a *admission) full(bytes int64) bool {
	v, size := a.db.view.Load(), a.memtableMax()
	if len(v.tables) == 1 {
		return false
	}
	waiting, held := v.waiting()
	active, most := v.tables[0].Bytes()+bytes, (waitingMax+1)*size
	if active <= size { // but it may come as a table of its own
		return waiting > waitingMax && held > most
	}
	return waiting >= waitingMax || held+active > most
}

// wait waits until flushes have made room, or returns the error of one that
// began after the call and failed, or that of ctx.
func (a *admission) wait(ctx context.Context, bytes int64) error {
	defer context.AfterFunc(ctx, a.interrupt)()
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.full(bytes) {
		if err := cmp.Or(a.db.commits.poisoned(), ctx.Err()); err != nil {
			return err
		}
		next := a.nextFlush()
		a.db.background.flusher.wake()
		for a.flushes < next && a.db.commits.poisoned() == nil && ctx.Err() == nil && a.full(bytes) {
			a.ended.Wait()
		}
		if a.err != nil && a.full(bytes) {
			return a.err
		}
	}
	return nil
}

// nextFlush returns how many flushes will have ended when one has that began after
// the call: one under way may fail for what is over by now. The caller holds mu.
func (a *admission) nextFlush() uint64 {
	if a.flushing {
		return a.flushes + 2
	}
	return a.flushes + 1
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
