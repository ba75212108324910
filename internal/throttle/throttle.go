package throttle

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/work"
)

const (
	// waitingMax is the number of memtables that may wait to be flushed before commits
	// wait for them. One is being flushed while the next one fills.
	waitingMax = 2

	// paceFrom and paceFull are parts of the memory for memtables. Between them, commits
	// are slowed down in proportion, and at paceFull to the rate of the flushes. So they
	// wait often for a moment, and seldom for the end of a flush.
	paceFrom = 0.5
	paceFull = 0.9

	// waitMin is the shortest wait that is worth a sleep. Shorter ones add up.
	waitMin = 200 * time.Microsecond
	// waitMax bounds one wait, plus the same for every waitBytes to be written. So
	// slowing down is never a stall.
	waitMax   = 50 * time.Millisecond
	waitBytes = 1 << 20
	// napMax bounds the time after which a sleeping commit looks at what is still owed.
	napMax = 10 * time.Millisecond
	// owedMax bounds the time that commits owe, so that they do not pay long for
	// a delay that jobs have made up for.
	owedMax = 5 * time.Second
)

// Options are what a Throttle is made of.
type Options struct {
	MemtableSize int64 // bytes of a full memtable
	Group        *work.Group
	Report       event.Sink
	// Fill returns how full the memory for memtables is.
	Fill func() state.Fill
	// Failed returns the error that ended all commits, if one did.
	Failed func() error
	// Flush wakes the flusher.
	Flush func()
}

// A Throttle is the throttle of one database.
type Throttle struct {
	o Options

	// How many nanoseconds a KiB has to wait. The first is for the sake of compaction and
	// collection. The second follows the speed of flushes, the third the speed of
	// collection.
	nsPerKiB, flushNsPerKiB, freeNsPerKiB atomic.Int64

	estimate estimate
	growth   growth
	tableMax atomic.Int64 // see MemtableMax
	debt     atomic.Int64 // bytes, as of the last edit
	paidAt   atomic.Int64 // when what was written is paid for, of work.Now

	lastCollected time.Time // guarded by collecting

	mu       lock.Mutex[lock.Flushes]
	ended    sync.Cond // signals that a flush has ended, or that waiters should look again
	flushes  uint64    // how many flushes have ended
	flushing bool      // one is under way
	err      error     // of the last one

	failing atomic.Bool // err is not nil; commits ask without mu

	waits, waited atomic.Int64 // how often groups waited, and for how many nanoseconds
}

// New returns a throttle.
func New(o Options) *Throttle {
	t := &Throttle{o: o}
	t.ended.L = &t.mu
	t.tableMax.Store(o.MemtableSize)
	return t
}

// Waits returns how often commits waited and for how long in all.
func (t *Throttle) Waits() (int64, time.Duration) {
	return t.waits.Load(), time.Duration(t.waited.Load())
}

// NoteDebt says how far compaction was behind at Open, in bytes. It slows no commit
// down: the first edit does that.
func (t *Throttle) NoteDebt(debt int64) { t.debt.Store(debt) }

// Debt returns how far compaction was behind after the last edit, in bytes.
func (t *Throttle) Debt() int64 { return t.debt.Load() }

// Admit returns nil when a group may write about that many bytes. There must be memory. What
// was written before must be paid for, or the longest wait for that many bytes be over.
// When ctx is done before that, Admit returns the error of ctx. The caller leads a group
// and holds no lock.
func (t *Throttle) Admit(ctx context.Context, bytes int64) error {
	started := time.Now()
	if !t.WouldWait(bytes) {
		return nil
	}
	err := t.sleep(ctx, t.owed(), bytes)
	if err == nil {
		err = t.stall(ctx, bytes)
	}
	t.waits.Add(1)
	t.waited.Add(int64(time.Since(started)))
	return err
}

// WouldWait reports whether Admit would wait.
func (t *Throttle) WouldWait(bytes int64) bool { return t.owed() >= waitMin || t.Full(bytes) }

// AdmitApart charges for the bytes of a transaction that go to value files. Then it waits
// until what was written before is paid for, but no longer than for a group of that many bytes.
// The transaction waits here, before it can hold up a group. When ctx is done before the end
// of the wait, AdmitApart charges nothing, and the transaction must fail. The caller holds no
// lock.
func (t *Throttle) AdmitApart(ctx context.Context, bytes int64) error {
	ns := t.pace() * bytes >> 10
	if ns == 0 {
		return nil
	}
	wait, added := t.owe(ns)
	if wait < waitMin {
		return nil
	}
	started := time.Now()
	err := t.sleep(ctx, wait, bytes)
	if err != nil {
		t.owe(-added)
	}
	t.waits.Add(1)
	t.waited.Add(int64(time.Since(started)))
	return err
}

// Charge makes later groups pay for one of that many bytes. The caller holds build.
func (t *Throttle) Charge(bytes int64) {
	if ns := t.pace() * bytes >> 10; ns != 0 {
		t.owe(ns)
	}
}

// owe makes later commits pay for ns nanoseconds, as far as owedMax permits. It returns the
// time until everything before is paid for, and the nanoseconds that it has added.
func (t *Throttle) owe(ns int64) (wait time.Duration, added int64) {
	for now := work.Now(); ; {
		paidAt := t.paidAt.Load()
		from := max(paidAt, now)
		to := min(from+ns, now+int64(owedMax))
		if t.paidAt.CompareAndSwap(paidAt, to) {
			return time.Duration(from - now), to - from
		}
	}
}

// forgive leaves a part of what commits owe, for a delay that jobs have made up for.
func (t *Throttle) forgive(part float64) {
	for now := work.Now(); ; {
		paidAt := t.paidAt.Load()
		if paidAt <= now || t.paidAt.CompareAndSwap(paidAt, now+int64(part*float64(paidAt-now))) {
			return
		}
	}
}

// owed returns how long it is until what was written is paid for.
func (t *Throttle) owed() time.Duration {
	if paidAt := t.paidAt.Load(); paidAt > 0 {
		return time.Duration(paidAt - work.Now())
	}
	return 0
}

// sleep sleeps, as long as it may before that many bytes are written. It ends as soon as
// everything is paid for: jobs may catch up meanwhile.
func (t *Throttle) sleep(ctx context.Context, wait time.Duration, bytes int64) error {
	wait = min(wait, waitMax*time.Duration(1+bytes/waitBytes))
	for wait > 0 {
		nap := min(wait, napMax)
		if err := t.o.Group.Sleep(ctx, nap); err != nil {
			return err
		}
		wait = min(wait-nap, t.owed())
	}
	return nil
}

// pace returns how many nanoseconds a KiB has to wait.
func (t *Throttle) pace() int64 {
	return paceOf(t.o.Fill(), t.MemtableMax(), t.nsPerKiB.Load(), t.flushNsPerKiB.Load())
}

// paceOf returns how many nanoseconds a KiB has to wait. This is ns for compaction and
// collection, and a share of flushNs that grows with the use of the memory.
func paceOf(fill state.Fill, tableMax, ns, flushNs int64) int64 {
	if fill.Waiting == 0 {
		return ns
	}
	used := float64(fill.WaitingBytes+fill.ActiveBytes) / float64((waitingMax+1)*tableMax)
	if used > paceFrom {
		share := min(1, (used-paceFrom)/(paceFull-paceFrom))
		ns += int64(share * float64(flushNs))
	}
	return ns
}

// Full reports whether that many bytes would need one memtable too many, or more memory
// than the permitted memtables take.
func (t *Throttle) Full(bytes int64) bool {
	return fullOf(t.o.Fill(), t.MemtableMax(), bytes) && !mutant.On(mutant.IgnoreFull)
}

// fullOf is Full with memtables of size bytes. A large transaction brings a table
// of its own, of any size. When no memtable waits to be flushed, waiting cannot
// help, and any transaction gets in. What the active memtable has room for gets
// in beside it.
func fullOf(fill state.Fill, size, bytes int64) bool {
	if fill.Waiting == 0 {
		return false
	}
	active, most := fill.ActiveBytes+bytes, (waitingMax+1)*size
	if active <= size { // but it may come as a table of its own
		return fill.Waiting > waitingMax && fill.WaitingBytes > most
	}
	return fill.Waiting >= waitingMax || fill.WaitingBytes+active > most
}

// Spare returns how many more bytes may wait to be flushed while another memtable takes the
// writes. It is negative if more wait already.
func (t *Throttle) Spare(fill state.Fill) int64 {
	return waitingMax*t.MemtableMax() - fill.WaitingBytes
}

// stall is wait, with events around it.
func (t *Throttle) stall(ctx context.Context, bytes int64) error {
	if !t.Full(bytes) {
		return nil
	}
	started := time.Now()
	t.o.Report(event.StallBegin{})
	err := t.wait(ctx, bytes)
	t.o.Report(event.StallEnd{Took: time.Since(started)})
	return err
}

// wait waits until flushes have made room. It returns the error of a flush that
// began after the call and failed, or that of ctx.
func (t *Throttle) wait(ctx context.Context, bytes int64) error {
	defer context.AfterFunc(ctx, t.Interrupt)()
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.Full(bytes) {
		if err := cmp.Or(t.o.Failed(), ctx.Err()); err != nil {
			return err
		}
		next := t.nextFlushLocked()
		t.o.Flush()
		for t.flushes < next && t.o.Failed() == nil && ctx.Err() == nil && t.Full(bytes) {
			t.ended.Wait()
		}
		if t.err != nil && t.Full(bytes) {
			return t.err
		}
	}
	return nil
}

// AwaitFlush returns when flushes have made done true, or with the error of one
// that began after the call and failed. ctx is that of an operation.
func (t *Throttle) AwaitFlush(ctx context.Context, done func() bool) error {
	defer context.AfterFunc(ctx, t.Interrupt)()
	t.mu.Lock()
	defer t.mu.Unlock()
	for next := t.nextFlushLocked(); !done(); t.ended.Wait() {
		if err := cmp.Or(work.Interrupted(ctx), t.o.Failed()); err != nil {
			return err
		}
		if t.flushes >= next && t.err != nil {
			return t.err
		}
		t.o.Flush()
	}
	return nil
}

// nextFlushLocked returns the value of flushes once a flush that begins after the call
// has ended. A flush under way may fail for a reason that no longer holds. The caller
// holds mu.
func (t *Throttle) nextFlushLocked() uint64 {
	if t.flushing {
		return t.flushes + 2
	}
	return t.flushes + 1
}

// FlushBegins notes that a flush begins.
func (t *Throttle) FlushBegins() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flushing = true
}

// FlushEnded tells waiters how a flush of that many bytes of memtables ended.
func (t *Throttle) FlushEnded(bytes int64, took time.Duration, err error) {
	if err == nil && bytes > 1<<20 {
		ns := int64(took) / (bytes >> 10)
		if old := t.flushNsPerKiB.Load(); old != 0 {
			ns = (3*old + ns) / 4
		}
		t.flushNsPerKiB.Store(ns)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err, t.flushing = err, false
	t.failing.Store(err != nil)
	t.flushes++
	t.ended.Broadcast()
}

// FlushFailed reports whether the last flush failed. The flusher then tries again after a
// while, or when there is more space. A commit must not make it try at once: on a full disk,
// each attempt writes much.
func (t *Throttle) FlushFailed() bool { return t.failing.Load() }

// Interrupt makes waiters look at what has become of the database.
func (t *Throttle) Interrupt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended.Broadcast()
}
