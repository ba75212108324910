package commit

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/work"
)

// A group is the transactions that go through the log together.
type group struct {
	members   []*Request
	lastSeq   base.SeqNum
	built     base.SeqNum // the newest commit in the log when the group was built
	timeMs    uint64      // in the log with its members
	sync      bool
	mark      bool          // a member is a DB.Sync
	refused   error         // why there is no memory for what the members write
	published int64         // when it became visible, of work.Now
	err       error         // set before done is closed
	after     *group        // the group before, until it has ended
	done      chan struct{} // closed when the group was published or has failed
}

// lead takes one group through the log and reports whether that was the end of own. own is
// the leader's own request, or nil for a goroutine that leads for async ones. Another
// leader may have taken own, or the group may have been full before. It is the end of own,
// too, when ctx is done before there was memory.
func (c *Committer) lead(ctx context.Context, own *Request) bool {
	if c.awaitsOthers() {
		c.gather()
	}
	g := c.begin(ctx, own)
	if g == nil {
		return c.resign(ctx, own)
	}
	c.buildGroup(g)
	c.build.Unlock()
	c.o.Executor.At(work.PointApplied)

	if l := c.log.Load(); g.sync && g.err == nil && l != nil && !mutant.On(mutant.NoSync) {
		c.Counts.Syncs.Add(1)
		started := time.Now()
		g.err = l.Sync()
		took := time.Since(started)
		c.Counts.SyncTime.Add(took)
		c.lastSync.Store(int64(took))
	}
	c.publish(g)
	if l := c.log.Load(); !g.sync && g.err == nil && l != nil {
		l.SyncAhead()
	}
	if g.sync && g.err == nil && !g.mark {
		c.markRotation()
	}
	ended := c.finish(g, own)
	if !g.sync {
		c.letOthersRun(g.published)
	}
	return ended
}

const (
	// runTime is the time in nanoseconds for which commits that do not wait for the device
	// hold the processors. The scheduler itself would let a goroutine run for ten
	// milliseconds, while members that it has told wait for a processor.
	runTime = int64(100 * time.Microsecond)
	// crowdTime is the time in nanoseconds for which other committers may still be there
	// after commits have met. They may wait for a processor all that time.
	crowdTime = int64(20 * time.Millisecond)
)

// letOthersRun lets other goroutines run once in runTime, if there are other committers. A
// lone one would only wake an idle processor. now is the time. The caller leads no more: no
// commit waits for it.
func (c *Committer) letOthersRun(now int64) {
	if now-c.met.Load() > crowdTime {
		return
	}
	if last := c.ran.Load(); now-last >= runTime && c.ran.CompareAndSwap(last, now) {
		runtime.Gosched()
	}
}

// begin takes the next group once there is memory for it, and leaves build
// locked. It returns nil when ctx is done before that, and when it would have to wait
// although another leader has taken own.
func (c *Committer) begin(ctx context.Context, own *Request) *group {
	for {
		var refused error
		if may, bytes := c.mayWait(); may {
			if c.throttle.WouldWait(bytes) && c.taken(own) {
				c.letGo()
				return nil
			}
			refused = c.throttle.Admit(ctx, bytes)
			if refused == nil || ctx.Err() == nil {
				refused = cmp.Or(refused, c.awaitTables(ctx))
			}
			c.letGo()
			if refused != nil && ctx.Err() != nil {
				return nil
			}
		}
		c.build.Lock()
		if g := c.take(refused); g != nil {
			return g
		}
		c.build.Unlock() // the group before has taken the memory
	}
}

// taken reports whether a group has own.
func (c *Committer) taken(own *Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return own != nil && !own.queued
}

// resign passes the lead on. It takes own out of the queue, because ctx is done, and reports
// whether own was there: otherwise a group has it.
func (c *Committer) resign(ctx context.Context, own *Request) bool {
	c.mu.Lock()
	left := c.removeLocked(own)
	c.mu.Unlock()
	c.pass(own)
	if left {
		c.settle(own)
		own.err = ctx.Err()
	}
	return left
}

// finish tells the members of g how it went and passes the lead on. It reports
// whether own was one of them. A DB.Sync waits for a mark, and so for the leader that
// builds the next group. The commits of g do not, except the leader's own.
func (c *Committer) finish(g *group, own *Request) bool {
	included, async := false, 0
	var syncs []*Request
	for _, r := range g.members {
		if r.err == nil {
			r.err = g.err
		}
		c.settle(r)
		switch {
		case r == own:
			included = true
		case r.done != nil:
			g.members[async] = r
			async++
		case r.isSync() && g.mark:
			syncs = append(syncs, r)
		default:
			r.ready <- signalDone
		}
	}
	members := g.members[:async]
	g.members = nil
	if g.lastSeq > 0 && g.err == nil {
		c.History.ring()
	}
	if g.mark && g.err == nil {
		c.Mark() // before the lead passes: Close waits for it
	}
	for _, r := range syncs {
		r.ready <- signalDone
	}
	c.pass(own)
	switch {
	case async == 0:
	case own != nil:
		go func() { c.report(c.endAsync(members)) }() // a caller of Commit does not wait for them
	default:
		c.report(c.endAsync(members))
	}
	return included
}

// An outcome is what the callback of an async request is told.
type outcome struct {
	done    Done
	version base.SeqNum
	err     error
}

// endAsync ends the transactions of async requests. It returns what their callbacks are to be
// told. Afterwards the requests belong to other transactions.
func (c *Committer) endAsync(members []*Request) []outcome {
	outcomes, bytes := make([]outcome, len(members)), int64(0)
	for i, r := range members {
		outcomes[i] = outcome{r.done, r.seq, r.err}
		if r.err != nil {
			outcomes[i].version = 0 // it may have got one before the group failed
		}
		bytes += r.held
		r.end()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asyncBytes -= bytes; c.asyncBytes < asyncMax {
		c.shorter.Broadcast()
	}
	return outcomes
}

// report calls the callbacks of CommitAsync. If one of them ends its goroutine, another one
// goes on.
func (c *Committer) report(outcomes []outcome) {
	called := 0
	defer func() {
		c.reported(called)
		if rest := outcomes[called:]; len(rest) > 0 {
			go c.report(rest)
		}
	}()
	for _, o := range outcomes {
		called++
		o.done(o.version, o.err)
	}
}

// reported notes that n callbacks of CommitAsync were called, or will not be.
func (c *Committer) reported(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.async -= n; c.async == 0 {
		c.idle.Broadcast()
	}
}

// nextBytesLocked returns how much the next group writes at most: groupBytes, or
// its first member if that is larger. The caller holds mu.
func (c *Committer) nextBytesLocked() int64 {
	if c.queueBytes <= groupBytes {
		return c.queueBytes
	}
	return max(c.queue[0].waiting, groupBytes)
}

// take makes a group of the queue, which is to fail with refused if that is not
// nil. It returns nil when there is no memory for the group. The groups that were
// admitted before have taken theirs, since the caller holds build.
func (c *Committer) take(refused error) *group {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := refused == nil && c.throttle.Full(c.nextBytesLocked())
	if full && c.early == 0 {
		return nil
	}
	g := &group{refused: refused, after: c.lastGroup, done: make(chan struct{})}
	if len(c.queue) > 0 {
		g.members = make([]*Request, 0, len(c.queue))
	}
	bytes, rest := int64(0), c.queue[:0]
	for _, r := range c.queue {
		full = full || len(g.members) > 0 && bytes+r.waiting > groupBytes
		if full && !r.applied() {
			rest = append(rest, r)
			continue
		}
		bytes += r.waiting
		r.queued = false
		g.members = append(g.members, r)
	}
	if len(g.members) > 0 {
		c.groupSize, c.groupSyncs = len(g.members), slices.ContainsFunc(g.members, (*Request).Sync)
	}
	clear(c.queue[len(rest):])
	c.queue, c.early = rest, 0
	c.queueBytes -= bytes
	return g
}

// pass ends the lead of a goroutine. If the queue is worth leading, a waiter in it
// on whose behalf no goroutine leads yet gets the lead. For an async request a new
// goroutine leads. The leader's own request may be the one, if it still waits.
func (c *Committer) pass(own *Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own != nil {
		own.leading = false
	}
	c.expected = c.groupSize + len(c.queue)
	if c.leaders--; c.worthLeadingLocked() {
		for _, r := range c.queue {
			if !r.leading {
				c.leadForLocked(r)
				return
			}
		}
	}
	if c.leaders == 0 {
		c.idle.Broadcast()
	}
}

// leadForLocked makes the waiter for r lead. The caller holds mu.
func (c *Committer) leadForLocked(r *Request) {
	c.leaders++
	r.leading = r.done == nil
	if r.done != nil {
		go c.lead(context.Background(), nil)
	} else {
		r.ready <- signalLead
	}
}

// awaitGroup waits for the end of the group that was built last, and so of those before it. When
// ctx is done before that, it returns the error of ctx.
func (c *Committer) awaitGroup(ctx context.Context) error {
	c.build.Lock()
	last := c.lastGroup
	c.build.Unlock()
	if last == nil {
		return nil
	}
	select {
	case <-last.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// publish makes the group visible once every group before it is.
func (c *Committer) publish(g *group) {
	if g.after != nil {
		<-g.after.done
		if g.err == nil {
			g.err = g.after.err
		}
		g.after = nil
	}
	if g.err == nil {
		if g.sync {
			c.History.raiseDurable(g.built)
		}
		if g.lastSeq > 0 {
			if mutant.On(mutant.LatePublish) {
				g.lastSeq--
			}
			c.store.SetVisible(g.lastSeq)
			if g.sync {
				c.store.TimeKept(g.timeMs)
			}
			g.published = c.o.Activity.Note()
			c.store.NotePublished(g.lastSeq, g.published)
			if !c.throttle.FlushFailed() && (c.dozing.Load() || len(c.store.View().Memtables) > 1) {
				c.o.Flush()
			}
		}
	} else {
		g.err = c.Fail(g.err)
	}
	close(g.done)
}
