package commit

import (
	"context"
	"errors"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/vfs"
)

// Log returns the log, or nil before the first commit.
func (c *Committer) Log() *log.Writer { return c.log.Load() }

// Recovered returns what recovery found of the log.
func (c *Committer) Recovered() *log.Recovered { return &c.recovered }

// LogOptions returns the options of the log.
func (c *Committer) LogOptions() log.Options { return c.o.Log }

// StartLog starts a new log where recovery found the end of the old one. It tells the
// manifest where the old log ended and the new one begins. A failure leaves things as they
// were, unless it is the manifest's, which then fails for good. The caller holds build, or
// is Open.
func (c *Committer) StartLog() error {
	if err := c.store.EditErr(); err != nil {
		return err // the manifest may name the log that was begun before
	}
	l, err := log.Create(c.o.Log, c.recovered)
	if err != nil {
		return err
	}
	spans := append(slices.Clone(c.recovered.Spans), base.LogSpan{First: l.First()})
	if err := c.store.Record(manifest.Edit{Spans: manifest.Some(spans)}); err != nil {
		if c.store.EditErr() == nil {
			l.Abandon(c.recovered)
		} else {
			_ = l.Close() // the manifest may name it, and its error is the one to tell
		}
		return err
	}
	// In this order: a feed that finds the new place of a commit asks the new log how far it is
	// written. Only a feed that can find it may lose the old place.
	c.log.Store(l)
	ref, size := l.Place()
	c.History.noteCarried(ref, size, c.recovered.Carried())
	c.releaseLog(l, spans[0].First.Number)
	// The log begins with a durable copy of what recovery found. A feed may wait for that.
	c.History.raiseDurable(c.lastSeq)
	c.History.ring()
	// Jobs that an earlier opening left can be done now.
	c.o.Compact()
	c.o.Collect()
	return nil
}

// ReleaseLog gives up the segments of the log before a number.
func (c *Committer) ReleaseLog(before uint64) {
	c.History.release(before)
	c.releaseLog(c.log.Load(), before)
}

func (c *Committer) releaseLog(l *log.Writer, before uint64) { c.warnOf(l.Release(before)) }

// TrimLog deletes the spare segments of the log.
func (c *Committer) TrimLog() {
	if l := c.log.Load(); l != nil {
		c.warnOf(l.Trim())
	}
}

// warnOf reports that a file of the log could not be removed.
func (c *Committer) warnOf(err error) {
	if err != nil {
		c.o.Report(event.Warning{What: "a log file that is not needed could not be removed", Err: err})
	}
}

// ensureLog starts the log if there is none yet. When that fails on the manifest,
// all commits end. The caller holds build.
func (c *Committer) ensureLog() error {
	if c.log.Load() != nil {
		return nil
	}
	err := c.StartLog()
	if err != nil && (c.store.EditErr() != nil || errors.Is(err, vfs.ErrNamesLost)) {
		return c.Fail(err)
	}
	return err
}

// reserve makes room in the log for a record of n bytes. When it fails nothing
// has happened. The caller holds build.
func (c *Committer) reserve(n int64) error {
	if err := c.ensureLog(); err != nil {
		return err
	}
	l := c.log.Load()
	return c.failedLog(l, l.Reserve(n))
}

// failedLog returns err, which is nil or the error of a step of the log. It ends all commits
// if the log may be unable to tell what it has, or if no later step can succeed.
func (c *Committer) failedLog(l *log.Writer, err error) error {
	if err != nil && (l.Err() != nil || errors.Is(err, vfs.ErrNamesLost)) {
		return c.Fail(err)
	}
	return err
}

// proveRecovered makes durable what recovery found at the end of the old log, if
// a full disk has kept Open from it. The caller holds build.
func (c *Committer) proveRecovered() error {
	if c.recovered.Unproven() {
		return c.ensureLog()
	}
	return nil
}

// SyncLog makes everything durable that was committed before the call. A change that only the
// manifest has calls it first: a power cut must not keep the change and take an earlier commit.
func (c *Committer) SyncLog() error {
	if err := c.Failed(); err != nil || mutant.On(mutant.EditOvertakes) {
		return err
	}
	c.build.Lock()
	err := c.proveRecovered()
	c.build.Unlock()
	l := c.log.Load()
	if err != nil || l == nil {
		return err
	}
	return c.failedLog(l, l.Sync())
}

// Mark makes the log record how far it is durable. Otherwise, only the next commit would
// record it, and until then damage to the last commits would look like a torn tail.
func (c *Committer) Mark() {
	l := c.log.Load()
	if l == nil || mutant.On(mutant.NoMark) {
		return
	}
	c.build.Lock()
	defer c.build.Unlock()
	c.markLocked(l)
}

// markRotation is Mark after a synced group, if a full segment has become durable and no
// frame may say so. It does nothing while another leader builds a group: a later group marks.
func (c *Committer) markRotation() {
	l := c.log.Load()
	if l == nil || !l.Unsaid() || mutant.On(mutant.NoMark) || !c.build.TryLock() {
		return
	}
	defer c.build.Unlock()
	c.markLocked(l)
}

// markLocked is Mark of l for callers that hold build.
func (c *Committer) markLocked(l *log.Writer) {
	if c.hasEarly() {
		return // the group of the applied requests marks
	}
	// Nothing is lost without it, and the next commit fails if the log cannot be
	// written.
	_ = l.Mark()
}

// Rotate puts an empty memtable before the active one, which can then be flushed.
// With shrink it also moves the log to a small segment.
func (c *Committer) Rotate(shrink bool) error {
	c.build.Lock()
	defer c.build.Unlock()
	if err := c.Failed(); err != nil {
		return err
	}
	if err := c.ensureLog(); err != nil {
		return err
	}
	l := c.log.Load()
	if shrink {
		if err := c.failedLog(l, l.Shrink()); err != nil {
			return err
		}
	}
	switch v := c.store.View(); {
	case v.Memtables[0].Len() > 0:
		c.store.AddMemtables(l.Current(), c.store.Memory.NewTable(0))
		c.heldByActive.Store(0)
	case len(v.Memtables) == 1:
		// Nothing in memory needs what the log has so far.
		c.store.StartLogAt(l.Current())
	}
	return nil
}

// CloseLog closes the log. After an orderly end, it records the time and the end of the log
// in the manifest. So nothing can go missing from the log unnoticed.
func (c *Committer) CloseLog(orderly bool) error {
	var edit manifest.Edit
	c.store.StopClock()
	if l := c.log.Load(); l != nil {
		if err := l.Close(); err != nil {
			return base.Failed(err)
		}
		if !orderly {
			return nil
		}
		c.TrimLog()
		spans := slices.Clone(c.store.State().Spans)
		// What was flushed is not needed any more.
		last := &spans[len(spans)-1]
		first := last.First
		*last = l.Span()
		last.First = first
		edit.Spans = manifest.Some(spans)
	}
	if !edit.Spans.Set && !(orderly && c.store.TimeUnsaved()) {
		return nil
	}
	err := c.store.Record(edit)
	if err != nil && c.store.EditErr() != nil {
		err = base.Failed(err)
	}
	return err
}

// VerifyLog reads the log beside the commits that write it, up to the last transaction that
// is known to be durable. It returns how many transactions there are. pass is called now
// and then, and stops it.
func (c *Committer) VerifyLog(pass func() error) (records int64, err error) {
	if c.log.Load() == nil {
		records, err = log.Verify(c.o.Log, c.recovered.Spans, pass)
	}
	l := c.log.Load()
	if l == nil {
		return records, err
	}
	// If it has been started meanwhile, a flush may have let go of what was read.
	letGo := l.Hold()
	spans := slices.Clone(c.store.State().Spans)
	last := &spans[len(spans)-1]
	*last = l.Proven(last.First)
	records, err = log.Verify(c.o.Log, spans, pass)
	c.warnOf(letGo())
	return records, err
}

// LogStats returns what the log says of itself.
func (c *Committer) LogStats() log.Stats {
	if l := c.log.Load(); l != nil {
		return l.Stats()
	}
	return c.recovered.Stats()
}

// FlushAll returns when everything that was committed before the call is in
// tables. ctx is that of an operation.
func (c *Committer) FlushAll(ctx context.Context) error {
	target := c.store.Visible()
	done := func() bool {
		if c.store.State().FlushedSeq >= target {
			return true
		}
		v := c.store.View()
		return len(v.Memtables) == 1 && v.Memtables[0].Len() == 0
	}
	if done() {
		return nil
	}
	if err := c.Rotate(true); err != nil {
		return err
	}
	return c.throttle.AwaitFlush(ctx, done)
}
