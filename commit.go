package stoat

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/txn"
)

// A writeSet is what a read-write transaction gathers. It is reused by later
// transactions.
type writeSet struct {
	pending *memtable.Table // the writes, under sequence number 0
	adds    bool            // it does not only delete
	large   int64           // bytes of values that may be written apart
	streams []*streamed     // values that were given as readers
	reads   txn.ReadSet
	request request
	turn    uint // counts commits, to measure some
}

func (d *DB) newWriteSet() *writeSet {
	w, _ := d.writes.Get().(*writeSet)
	if w == nil {
		w = new(writeSet)
		w.request.ready = make(chan signal, 1)
	}
	if w.pending == nil {
		w.pending = d.memory.newPending()
	}
	return w
}

func (d *DB) freeWriteSet(w *writeSet) {
	if w.pending != nil {
		w.pending.Reset()
	}
	w.reads.Reset()
	w.large, w.adds = 0, false
	d.dropStreams(w)
	w.request = request{ready: w.request.ready}
	d.writes.Put(w)
}

// A signal wakes the goroutine that waits for a request.
type signal uint8

const (
	signalDone signal = iota + 1 // the request has been dealt with
	signalLead                   // the waiter is to lead the next group
)

// A request is a commit in the pipeline, or, without writes, a DB.Sync.
type request struct {
	writes *writeSet
	since  base.SeqNum // the snapshot, or a later point up to which it is known to be free of conflicts
	sync   bool

	// Guarded by committer.mu: whether the request waits in the queue, and
	// whether its waiter has been called upon to lead. An async one has no
	// waiter: the goroutine that leads in its place takes what it finds at the
	// head of the queue, and owes nothing to those that it leaves there.
	queued, leading bool

	// slot is the snapshot of a transaction that read nothing. Nobody will ask
	// what was written since, so that it ends before the waiting begins:
	// otherwise memory that was flushed would stay for as long as commits wait
	// for memory.
	slot *readerSlot

	apart      []base.FileNum // value files that hold what it wrote
	apartBytes int64          // their size
	moved      int64          // bytes of values that went there
	promised   int64          // bytes of the disk, see diskRoom

	seq  base.SeqNum // the outcome
	err  error
	done func(error) // of an async request, in place of ready
	// ready has room for one signal, so that nobody waits to send it.
	ready chan signal
}

const (
	// groupsMax is how many groups may be on their way to the device at once.
	// Two keep it busy: one is being synced while the next is gathered,
	// written and sent after it.
	groupsMax = 2

	// groupBytes is about how much one group writes at most, so that nobody
	// in it waits long for the others.
	groupBytes = 4 << 20

	// queueBytes is how much may wait in the queue before CommitAsync waits.
	queueBytes = 64 << 20
)

// A committer turns transactions into groups and takes groups through the
// log, one order for all.
//
// A transaction that commits joins the queue. If fewer than groupsMax groups
// are under way, its goroutine becomes a leader; the others wait. A leader
//
//  1. under build, takes the queue and for each transaction validates what it
//     read, gives it the next sequence number, applies it to the memtable
//     (where nobody sees it yet) and encodes it for the log; then it writes
//     the group to the log with one call;
//  2. outside build, so that the next leader can build, syncs the log if
//     anybody in the group asked for it;
//  3. when the group before it has been published, publishes its own: moves
//     the visible sequence number, hands the lead to the head of the queue,
//     and wakes the members.
//
// A group becomes visible only after its sync: nobody reads what a power cut
// could take back, except what was committed as Buffered.
//
// The first error of the log poisons the committer: sequence numbers may have
// been applied that never became durable, so nothing is committed any more.
type committer struct {
	db *DB

	mu      sync.Mutex
	queue   []*request
	bytes   int64 // of the queue
	leaders int
	size    int // members of the group that was taken last
	async   int // requests of CommitAsync that have not been reported
	closed  bool
	idle    sync.Cond // leaders or async has become 0
	room    sync.Cond // bytes has fallen below queueBytes, or who waits for it gives up

	// build is held by the leader that builds its group. It guards the order
	// of the log, of the memtable and of the groups, and what follows.
	build   sync.Mutex
	lastSeq base.SeqNum
	last    *group
	head    []byte // an entry being encoded
	// apart is how many bytes of value files the memtable that takes the writes
	// refers to. The flusher looks at it, too.
	apart atomic.Int64

	poison atomic.Pointer[error]

	counts struct {
		commits, conflicts, groups, syncs atomic.Uint64
		bytes                             atomic.Int64 // of keys and values
	}
}

// A group is the transactions that go through the log together.
type group struct {
	members []*request
	lastSeq base.SeqNum
	timeMs  uint64 // in the log with its members
	sync    bool
	mark    bool          // somebody called DB.Sync
	refused error         // why there is no room for what the members write
	err     error         // set before finished is closed
	after   *group        // the group before, until it has finished
	done    chan struct{} // closed when the group has been published or has failed
}

func (c *committer) init(d *DB, lastSeq base.SeqNum) {
	c.db, c.lastSeq = d, lastSeq
	c.idle.L, c.room.L = &c.mu, &c.mu
}

// poisoned returns the error that ended all commits, if one did.
func (c *committer) poisoned() error {
	if p := c.poison.Load(); p != nil {
		return *p
	}
	return nil
}

// fail ends all commits because of err, those that wait for memory among them,
// and returns ErrFailed with it.
func (c *committer) fail(err error) error {
	err = failed(err)
	if !mutant.On(mutant.NoPoison) {
		c.poison.CompareAndSwap(nil, &err)
	}
	c.db.admission.interrupt()
	return err
}

// failed returns err as one that ended all commits.
func failed(err error) error {
	if errors.Is(err, ErrFailed) {
		return err
	}
	return &failure{err}
}

// A failure is ErrFailed with the error that is the reason.
type failure struct{ reason error }

func (f *failure) Error() string        { return ErrFailed.Error() + ": " + f.reason.Error() }
func (f *failure) Unwrap() error        { return f.reason }
func (f *failure) Is(target error) bool { return target == ErrFailed }

// size is what a request will take in the log at most.
func (r *request) size() int64 {
	if r.writes == nil {
		return 0
	}
	p := r.writes.pending
	return txn.HeaderSize + p.DataBytes() + int64(p.LiveLen())*txn.EntryOverheadMax
}

// keep takes over the snapshot of the transaction, if nobody will ask for it.
func (r *request) keep(slot **readerSlot) {
	if r.writes.reads.Empty() {
		r.slot, *slot = *slot, nil
	}
}

// letGo ends the snapshot that keep took over.
func (r *request) letGo(d *DB) {
	if r.slot != nil {
		d.release(r.slot)
		r.slot = nil
	}
}

// submit takes r through the pipeline and returns its outcome. When ctx is
// done while r still waits in the queue, or for memory to be written to, r
// leaves it.
func (c *committer) submit(ctx context.Context, r *request) error {
	r.letGo(c.db)
	if err := c.precheck(ctx, r); err != nil {
		return err
	}
	lead, err := c.enqueue(r)
	if err != nil {
		c.db.settle(r)
		return err
	}
	for {
		if lead && c.lead(ctx, r) {
			return r.err
		}
		var s signal
		select {
		case s = <-r.ready:
		case <-ctx.Done():
			if c.withdraw(r) {
				c.db.settle(r)
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

// submitAsync takes r through the pipeline on goroutines of the database and
// reports through r.done. ctx ends what the caller waits for before r is in the
// queue.
func (c *committer) submitAsync(ctx context.Context, r *request) {
	r.letGo(c.db)
	if err := c.precheck(ctx, r); err != nil {
		c.tell(r.done, err)
		return
	}
	lead, err := false, c.awaitRoom(ctx)
	if err == nil {
		lead, err = c.enqueue(r)
	}
	if err != nil {
		c.db.settle(r)
		c.tell(r.done, err)
	} else if lead {
		go c.lead(context.Background(), nil)
	}
}

// awaitRoom waits until the queue is short enough for another async request. When
// ctx is done before that, it returns its error.
func (c *committer) awaitRoom(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes < queueBytes || c.closed {
		return nil
	}
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.room.Broadcast()
	})()
	for c.bytes >= queueBytes && !c.closed {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.room.Wait()
	}
	return nil
}

// tell calls done without a way through the pipeline. It does so on another
// goroutine, since the caller may hold what done needs. Close waits for it.
func (c *committer) tell(done func(error), err error) {
	c.mu.Lock()
	c.async++
	c.mu.Unlock()
	go c.report([]*request{{done: done, err: err}})
}

// precheck makes sure that there is room on the disk, and looks for conflicts
// without holding anybody up, so that the leader has only the commits since then
// to look at.
func (c *committer) precheck(ctx context.Context, r *request) (err error) {
	if err := c.poisoned(); err != nil {
		return err
	}
	if r.writes == nil {
		return nil
	}
	if r.writes.adds {
		takes := r.takes(c.db.opts.apartMin())
		if err := c.db.room.admit(ctx, takes); err != nil {
			return err
		}
		r.promised = takes
		defer func() {
			if err != nil {
				c.db.room.taken(r)
			}
		}()
	} else if err := c.db.room.yield(ctx); err != nil {
		return err
	}
	upTo := c.db.lastVersion()
	if upTo > r.since {
		if err := c.validate(r); err != nil {
			return err
		}
		r.since = upTo
	}
	w := r.writes
	if len(w.streams) == 0 && w.large < c.db.opts.apartMin() {
		return nil
	}
	err = c.db.placeApart(ctx, r)
	c.db.room.refusedBy(err)
	return err
}

// validate returns ErrConflict if something that r read has been written since.
func (c *committer) validate(r *request) error {
	hit, err := c.db.conflicts(&r.writes.reads, r.since)
	if hit {
		c.counts.conflicts.Add(1)
		return ErrConflict
	}
	return err
}

// enqueue adds r to the queue and reports whether its goroutine is to lead.
func (c *committer) enqueue(r *request) (lead bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false, ErrClosed
	}
	if r.done != nil {
		c.async++
	}
	r.queued = true
	c.queue = append(c.queue, r)
	c.bytes += r.size()
	if !c.worthLeading() {
		return false, nil
	}
	c.leaders++
	r.leading = r.done == nil
	return true, nil
}

// worthLeading reports whether the queue should go on its way now. Beside a
// group in flight it waits until it is half as large as that one: otherwise
// the first of many committers to come back would take the second place in
// flight for itself alone. The caller holds mu.
func (c *committer) worthLeading() bool {
	switch c.leaders {
	case 0:
		return true
	case groupsMax:
		return false
	}
	return 2*len(c.queue) >= c.size
}

// withdraw takes r out of the queue if it is still there and not called upon
// to lead.
func (c *committer) withdraw(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !r.leading && c.removeLocked(r)
}

// removeLocked takes r out of the queue if it is still there.
func (c *committer) removeLocked(r *request) bool {
	if !r.queued {
		return false
	}
	r.queued = false
	i := slices.Index(c.queue, r)
	c.queue = slices.Delete(c.queue, i, i+1)
	c.shrunkLocked(r.size())
	return true
}

// shrunkLocked notes that so many bytes have left the queue.
func (c *committer) shrunkLocked(bytes int64) {
	if c.bytes -= bytes; c.bytes < queueBytes {
		c.room.Broadcast()
	}
}

// lead takes one group through the log and reports whether that was the end of
// own, the leader's own request, which is nil for a goroutine that leads for
// async ones. Another leader may have taken it, or the group may have been full
// before. It is the end of own, too, when ctx is done before there was memory.
func (c *committer) lead(ctx context.Context, own *request) bool {
	if c.lastSize() > 1 {
		// Let those whom the last group woke join this one.
		runtime.Gosched()
	}
	g := c.begin(ctx)
	if g == nil {
		return c.resign(ctx, own)
	}
	c.buildGroup(g)
	c.build.Unlock()
	c.db.at(pointApplied)

	if l := c.db.log.Load(); g.sync && g.err == nil && l != nil && !mutant.On(mutant.NoSync) {
		c.counts.syncs.Add(1)
		started := time.Now()
		g.err = l.Sync()
		c.db.work.syncTime.Add(time.Since(started))
	}
	c.publish(g)
	if g.mark && g.err == nil {
		c.mark()
	}
	return c.finish(g, own)
}

// mark makes the log say how far it is durable, which the next commit would say
// otherwise.
func (c *committer) mark() {
	l := c.db.log.Load()
	if l == nil || mutant.On(mutant.NoMark) {
		return
	}
	c.build.Lock()
	defer c.build.Unlock()
	// Nothing is lost without it, and a log that cannot be written is told of by the
	// next commit.
	_ = l.Mark()
}

// begin takes the next group once there is memory for it, and leaves build
// locked. It returns nil when ctx is done before that.
func (c *committer) begin(ctx context.Context) *group {
	for {
		refused := c.db.admission.admit(ctx, c.waitingBytes())
		if refused != nil && ctx.Err() != nil {
			return nil
		}
		c.build.Lock()
		if g := c.take(refused); g != nil {
			return g
		}
		c.build.Unlock() // the group before has taken the memory
	}
}

// resign passes the lead on and takes own out of the queue, because ctx is
// done. It reports whether own was there: otherwise a group has it.
func (c *committer) resign(ctx context.Context, own *request) bool {
	c.mu.Lock()
	left := c.removeLocked(own)
	c.mu.Unlock()
	c.pass(own)
	if left {
		c.db.settle(own)
		own.err = ctx.Err()
	}
	return left
}

// finish tells the members of g how it went and passes the lead on. It reports
// whether own was one of them.
func (c *committer) finish(g *group, own *request) bool {
	included, async := false, 0
	for _, r := range g.members {
		if r.err == nil {
			r.err = g.err
		}
		c.db.settle(r)
		switch {
		case r == own:
			included = true
		case r.done != nil:
			g.members[async] = r
			async++
		default:
			r.ready <- signalDone
		}
	}
	members := g.members[:async]
	g.members = nil
	c.pass(own)
	if own != nil && async > 0 {
		go c.report(members) // a caller of Commit does not wait for callbacks
	} else {
		c.report(members)
	}
	return included
}

// report calls back those who committed with CommitAsync.
func (c *committer) report(members []*request) {
	for _, r := range members {
		r.done(r.err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.async -= len(members); c.async == 0 {
		c.idle.Broadcast()
	}
}

// waitingBytes is about how much the next group will write.
func (c *committer) waitingBytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextBytesLocked()
}

// nextBytesLocked returns how much the next group writes at most: groupBytes,
// or its first member if that is larger.
func (c *committer) nextBytesLocked() int64 {
	if c.bytes <= groupBytes {
		return c.bytes
	}
	return max(c.queue[0].size(), groupBytes)
}

// lastSize is the size of the group that was taken last.
func (c *committer) lastSize() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// take makes a group of the queue, which is to fail with refused if that is not
// nil. It returns nil when there is no memory for the group. Those who were
// admitted before have taken theirs, since the caller holds build.
func (c *committer) take(refused error) *group {
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused == nil && c.db.admission.full(c.nextBytesLocked()) {
		return nil
	}
	n, bytes := 0, int64(0)
	for n < len(c.queue) && (n == 0 || bytes+c.queue[n].size() <= groupBytes) {
		bytes += c.queue[n].size()
		c.queue[n].queued = false
		n++
	}
	if n > 0 {
		c.size = n
	}
	g := &group{members: append([]*request(nil), c.queue[:n]...), refused: refused, after: c.last, done: make(chan struct{})}
	rest := copy(c.queue, c.queue[n:])
	clear(c.queue[rest:])
	c.queue = c.queue[:rest]
	c.shrunkLocked(bytes)
	return g
}

// pass ends a leader's turn. If the queue is worth leading, somebody in it on
// whose behalf nobody leads yet gets the lead; for an async request a goroutine
// does. The leader's own request may be the one, if it still waits.
func (c *committer) pass(own *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own != nil {
		own.leading = false
	}
	if c.leaders--; c.worthLeading() {
		for _, r := range c.queue {
			if !r.leading {
				c.leadFor(r)
				return
			}
		}
	}
	if c.leaders == 0 {
		c.idle.Broadcast()
	}
}

// leadFor makes the waiter for r lead. The caller holds mu.
func (c *committer) leadFor(r *request) {
	c.leaders++
	r.leading = r.done == nil
	if r.done != nil {
		go c.lead(context.Background(), nil)
	} else {
		r.ready <- signalLead
	}
}

// publish makes the group visible once every group before it is.
func (c *committer) publish(g *group) {
	if g.after != nil {
		<-g.after.done
		if g.err == nil {
			g.err = g.after.err
		}
		g.after = nil
	}
	if g.err == nil {
		if g.lastSeq > 0 {
			if mutant.On(mutant.LatePublish) {
				g.lastSeq--
			}
			c.db.visible.Store(uint64(g.lastSeq))
			if g.sync {
				c.db.clock.keep(g.timeMs)
			}
			c.db.publications.note(g.lastSeq, c.db.background.quiet.stir())
			c.db.flushSoon()
		}
	} else {
		g.err = c.fail(g.err)
	}
	close(g.done)
}

// drain refuses new requests and waits for those under way, callbacks included.
func (c *committer) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.room.Broadcast()
	for c.leaders > 0 || c.async > 0 {
		c.idle.Wait()
	}
}

// busy reports whether requests are under way.
func (c *committer) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leaders > 0
}
