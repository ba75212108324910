package commit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/histogram"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/turns"
	"github.com/stoatdb/stoat/internal/work"
)

const (
	// groupsMax is the number of groups that may be on their way at once. One is being synced,
	// or its members are being told, while the next is built and written.
	groupsMax = 2
	// besideBytes is about how many bytes of requests take as long to build and to write as a
	// sync takes. A smaller group waits for the end of a sync: it would grow meanwhile, and two
	// syncs at once take nearly as long as one after the other.
	besideBytes = 64 << 10
	// groupBytes is about the number of bytes that one group writes at most, so that no
	// member waits long for the others.
	groupBytes = 4 << 20
	// asyncMax is about how many bytes of memory async requests may hold before CommitAsync
	// waits. They hold what they write, what they have read, and requestBytes each.
	asyncMax     = 64 << 20
	requestBytes = 6 << 10
)

// Options are what a Committer is made of.
type Options struct {
	Store    *state.Store
	Space    *space.Reserve
	Group    *work.Group
	Executor *work.Executor
	Activity *work.Activity
	Streams  *place.Streams // its Options also place large values
	Log      log.Options
	Report   event.Sink

	// Functions are the registered merge functions, nil for none.
	Functions *partial.Functions

	HashSeed     uint64
	MemtableSize int64 // bytes
	Settings     settings.Of

	// Flush wakes the flusher, Compact the compactor, Collect the collector.
	Flush, Compact, Collect func()
}

// A Committer is the commit pipeline of one database.
type Committer struct {
	o        Options
	store    *state.Store
	throttle *throttle.Throttle
	Held     Held // the value files that commits have written
	History  History
	Line     turns.Line // the updates that take turns

	log       atomic.Pointer[log.Writer] // nil before the first commit
	recovered log.Recovered              // immutable after Recover
	failed    atomic.Pointer[error]
	writes    sync.Pool // of *WriteSet

	// dozing says that the flusher waits for a commit to wake it.
	dozing atomic.Bool
	// heldByActive is how many bytes of value files the active memtable refers to
	// that commits have written.
	heldByActive atomic.Int64

	ran      atomic.Int64 // when letOthersRun did so last, of work.Now
	met      atomic.Int64 // when a request last met a leader, of work.Now
	lastSync atomic.Int64 // how long the last sync of a group took, in nanoseconds

	ingesting *work.Lock[lock.Ingesting] // held by CommitTables; leaders wait for it

	build lock.Mutex[lock.Build] // held by the leader that builds its group
	// Guarded by build, which also orders the log, the memtable and the groups.
	lastSeq   base.SeqNum
	lastMs    uint64 // the time in the log with lastSeq
	lastGroup *group
	head      []byte // an entry that is being encoded

	mu lock.Mutex[lock.Queue]
	// Guarded by mu.
	queue      []*Request
	queueBytes int64
	leaders    int
	groupSize  int  // members of the group that was taken last
	groupSyncs bool // that group has a sync
	// beside is besideBytes. It is 0 if an executor lets all groups overlap.
	beside int64
	// expected is how many requests there were in that group and in the queue when it
	// ended. Most of them come back.
	expected int
	async    int // calls of CommitAsync whose callbacks have not ended
	// asyncBytes is about how much memory those hold whose transactions have not ended.
	asyncBytes int64
	early      int // requests in the queue that are applied; see SubmitEarly
	holdUps    int // leaders that may wait for memory or tables, and calls of CommitTables
	closed     bool
	idle       sync.Cond // leaders or async has become 0
	shorter    sync.Cond // asyncBytes has fallen below asyncMax, or a waiter must check again

	Counts Counts
}

// Counts are what a Committer counts, since Open.
type Counts struct {
	Commits, Conflicts, Groups, Syncs atomic.Uint64
	Bytes                             atomic.Int64 // of keys and values
	ApartBytes                        atomic.Int64 // of value files that commits wrote
	SyncTime                          histogram.Histogram
}

// New returns a committer. Bind must be called before it is used.
func New(o Options) *Committer {
	c := &Committer{o: o, store: o.Store, ingesting: work.NewLock[lock.Ingesting](), beside: besideBytes}
	if o.Executor != nil && o.Executor.Overlap {
		c.beside = 0
	}
	c.idle.L, c.shorter.L = &c.mu, &c.mu
	c.dozing.Store(true) // the first commit wakes the flusher
	return c
}

// Bind gives the committer the throttle, which asks it whether it has failed.
func (c *Committer) Bind(t *throttle.Throttle) { c.throttle = t }

// Failed returns the error that ended all commits, if one did.
func (c *Committer) Failed() error {
	if p := c.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// Fail ends all commits because of err, also those that wait for memory, and the feeds that
// wait for commits. It returns ErrFailed with err.
func (c *Committer) Fail(err error) error {
	err = base.Failed(err)
	if !mutant.On(mutant.NoPoison) {
		c.failed.CompareAndSwap(nil, &err)
	}
	c.throttle.Interrupt()
	c.History.ring()
	return err
}

// JobFailed reports an error of a background job, unless the error only says that the
// database is being closed. A failure of the manifest ends all commits: it is unknown
// what is on the disk.
func (c *Committer) JobFailed(err error) {
	if errors.Is(err, work.ErrStopped) || errors.Is(err, base.ErrClosed) {
		return
	}
	if e := c.store.EditErr(); e != nil {
		_ = c.Fail(e) // the next commit returns it
	}
	c.o.Report(event.BackgroundError{Err: err})
	c.o.Space.FailedBy(err)
}

// Doze makes the next commit wake the flusher, whatever waits to be flushed.
// Awake ends that.
func (c *Committer) Doze()  { c.dozing.Store(true) }
func (c *Committer) Awake() { c.dozing.Store(false) }

// Drain refuses new requests and waits for those under way, callbacks included. While groups are
// under way, updates may still wait for them; see AwaitVisible.
func (c *Committer) Drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.shorter.Broadcast()
	for c.leaders > 0 || c.async > 0 {
		c.idle.Wait()
	}
}

// Submit takes r through the pipeline and returns its outcome. When ctx is done
// while r still waits in the queue, or for memory, r leaves the queue.
func (c *Committer) Submit(ctx context.Context, r *Request) error {
	c.releaseSlot(r)
	if err := c.prepare(ctx, r); err != nil {
		return err
	}
	lead, err := c.enqueue(r)
	if err != nil {
		c.settle(r)
		return err
	}
	return c.await(ctx, r, lead)
}

// await waits for the outcome of r, which is in the queue. With lead, the caller leads a
// group first.
func (c *Committer) await(ctx context.Context, r *Request, lead bool) error {
	for {
		if lead && c.lead(ctx, r) {
			return r.err
		}
		var s signal
		select {
		case s = <-r.ready:
		case <-ctx.Done():
			if c.withdraw(r) {
				c.settle(r)
				return ctx.Err()
			}
			s = <-r.ready
		}
		if s == signalDone {
			return r.err
		}
		lead = true
	}
}

// SubmitAsync takes r through the pipeline on goroutines of the database and
// reports to done. Before that, it calls end, which ends the transaction and frees r. So a
// callback that takes long keeps no memory and no snapshot. ctx ends what the caller waits for
// before r is in the queue. The caller has called Expect. If SubmitAsync panics, it calls end.
func (c *Committer) SubmitAsync(ctx context.Context, r *Request, end func(), done Done) {
	r.end, r.done = end, done
	c.releaseSlot(r)
	decided := false
	defer func() {
		if !decided {
			c.settle(r)
			end()
		}
	}()
	lead, err := false, c.prepare(ctx, r)
	if err == nil {
		err = c.awaitShorter(ctx)
	}
	if err == nil {
		lead, err = c.enqueue(r)
	}
	decided = true
	switch {
	case err != nil:
		c.settle(r)
		end()
		go c.report([]outcome{{done: done, err: err}})
	case lead:
		go c.lead(context.Background(), nil)
	}
}

// awaitShorter waits until async requests hold less memory. When ctx
// is done before that, it returns the error of ctx.
func (c *Committer) awaitShorter(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asyncBytes < asyncMax || c.closed {
		return nil
	}
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.shorter.Broadcast()
	})()
	for c.asyncBytes >= asyncMax && !c.closed {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.shorter.Wait()
	}
	return nil
}

// Tell calls done on another goroutine, for a request that does not enter the pipeline:
// the caller may hold a lock that done takes. The caller has called Expect.
func (c *Committer) Tell(done Done, err error) {
	go c.report([]outcome{{done: done, err: err}})
}

// Expect makes Drain wait for one more callback. The caller does this before it waits for
// anything, so that Drain cannot end meanwhile. Then it calls SubmitAsync or Tell. If that does
// not return, because of a panic, it calls Unexpect.
func (c *Committer) Expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.async++
}

// Unexpect ends what Expect began: no callback comes.
func (c *Committer) Unexpect() { c.reported(1) }

// enqueue adds r to the queue and reports whether its goroutine is to lead.
func (c *Committer) enqueue(r *Request) (lead bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enqueueLocked(r)
}

// enqueueLocked is enqueue for a caller that holds mu.
func (c *Committer) enqueueLocked(r *Request) (lead bool, err error) {
	if c.closed && (c.leaders == 0 || !r.onlyAwaits()) {
		return false, base.ErrClosed
	}
	r.queued = true
	c.queue = append(c.queue, r)
	r.waiting = r.size()
	c.queueBytes += r.waiting
	if r.done != nil {
		r.held = r.memory()
		c.asyncBytes += r.held
	}
	if c.leaders > 0 {
		c.met.Store(work.Now())
	}
	if !c.worthLeadingLocked() {
		return false, nil
	}
	c.leaders++
	r.leading = r.done == nil
	return true, nil
}

// worthLeadingLocked reports whether the queue should become a group now. It should if no
// group is in flight. Beside a group in flight, it should have at least half as many
// requests. Otherwise the first of many committers to come back would take the second
// place in flight for itself alone. Beside a sync, the queue should also have besideBytes.
//
// A queue with applied requests waits until no group is in flight. Those requests come
// from updates that take turns, and one group of all of them takes less time than two. The
// caller holds mu.
func (c *Committer) worthLeadingLocked() bool {
	switch c.leaders {
	case 0:
		return true
	case groupsMax:
		return false
	}
	return c.early == 0 && 2*len(c.queue) >= c.groupSize && (!c.groupSyncs || c.queueBytes >= c.beside)
}

// withdraw takes r out of the queue if it is still there and does not lead.
func (c *Committer) withdraw(r *Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !r.leading && c.removeLocked(r)
}

// LastSeq returns the number of the newest commit in the log, which readers may not
// see yet.
func (c *Committer) LastSeq() base.SeqNum {
	c.build.Lock()
	defer c.build.Unlock()
	return c.lastSeq
}
