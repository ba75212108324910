package commit

import (
	"context"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// earlyBytes is the size in bytes up to which a request is applied before its group.
const earlyBytes = 64 << 10

// SubmitEarly is Submit for an update that others wait for. It applies the request at
// once, instead of with its group. So the next update can read the writes while they are on
// their way to the device. SubmitEarly then calls applied. It does not if the request is
// applied with its group.
//
// A request that is applied has its place in the log, and its group has all that came
// before. So it becomes visible with its group or the database fails.
//
// Applied requests in the queue must get into a group without any wait, because the
// flusher cannot flush their memtable before. So no request is applied early while a
// leader may wait for memory or for the debt of jobs, or tables are committed.
func (c *Committer) SubmitEarly(ctx context.Context, r *Request, applied func()) error {
	if mutant.On(mutant.EarlyUnchecked) {
		r.since = base.SeqNumMax
	}
	c.releaseSlot(r)
	if err := c.prepare(ctx, r); err != nil {
		return err
	}
	early, lead, err := c.enterEarly(r)
	if err != nil {
		c.settle(r)
		return err
	}
	if early {
		applied()
		ctx = context.Background() // the write has begun
	}
	return c.await(ctx, r, lead)
}

// enterEarly adds r to the queue, and applies it if it can. It reports whether r is applied,
// and whether the caller is to lead. After an error, r is not in the queue.
func (c *Committer) enterEarly(r *Request) (early, lead bool, err error) {
	c.build.Lock()
	defer c.build.Unlock()
	early, lead, err = c.enqueueEarly(r)
	if err != nil || !early {
		return false, lead, err
	}
	if err = c.Failed(); err == nil {
		err = c.record(r, c.store.Now(), nil)
	}
	if err == nil {
		return true, lead, nil
	}
	c.mu.Lock()
	c.early--
	c.removeLocked(r)
	called := r.leading && !lead // another leader has passed the lead to r meanwhile
	c.mu.Unlock()
	if called {
		<-r.ready
	}
	if lead || called {
		c.pass(r)
	}
	return false, false, err
}

// enqueueEarly adds r to the queue. It reports whether r is to be applied at once, and
// whether its goroutine is to lead. The caller holds build.
func (c *Committer) enqueueEarly(r *Request) (early, lead bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lead, err = c.enqueueLocked(r); err != nil {
		return false, false, err
	}
	early = c.holdUps == 0 && len(r.apart) == 0 && r.waiting <= earlyBytes && !c.throttle.WouldWait(c.nextBytesLocked())
	if early {
		c.early++
	}
	return early, lead, nil
}

// mayWait reports whether a leader may wait before it takes a group, and how much the group
// will write, in bytes. The leader may not wait if the queue has applied requests. It calls
// letGo after the wait.
func (c *Committer) mayWait() (may bool, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.early > 0 {
		return false, 0
	}
	c.holdUps++
	return true, c.nextBytesLocked()
}

// hasEarly reports whether applied requests wait in the queue, so that the log has records
// that are not written. The caller holds build.
func (c *Committer) hasEarly() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.early > 0
}

// letGo ends what mayWait began.
func (c *Committer) letGo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holdUps--
}

// holdUp lets no request be applied early until letGo, and waits until none is in the
// queue.
func (c *Committer) holdUp(ctx context.Context) error {
	c.mu.Lock()
	c.holdUps++
	waiting := c.early > 0
	c.mu.Unlock()
	if !waiting {
		return nil
	}
	return c.Submit(ctx, SyncRequest())
}

// AwaitVisible returns nil when the version seq is visible, which is in the log or on its
// way there. It returns ErrFailed if that cannot be.
func (c *Committer) AwaitVisible(ctx context.Context, seq base.SeqNum) error {
	if c.store.Visible() >= seq || mutant.On(mutant.EarlyResult) {
		return nil
	}
	err := c.Submit(ctx, &Request{ready: make(chan signal, 1)})
	if c.store.Visible() >= seq || mutant.On(mutant.EarlyOutlives) {
		return nil // also if Close refuses the request because all groups have ended
	}
	return err
}
