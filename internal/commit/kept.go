package commit

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// spansKept is the number of spans of the log, each from one opening of the database,
// that are kept for feeds. The manifest lists all spans in each edit of them.
const spansKept = 256

// retention returns how many bytes of the log are kept for feeds, although recovery does
// not need them. It is 0 if a transaction lacks space, and can go on with what is kept.
func (c *Committer) retention() int64 {
	if c.o.Space.Helps(c.keptBytes) {
		return 0
	}
	bytes := c.o.Settings(0).ChangeRetention
	if c.History.feeds.Load() > 0 {
		bytes = max(bytes, c.o.MemtableSize)
	}
	return bytes
}

// KeepLog returns the spans that the manifest must list when recovery needs nothing of
// the log before the segment first. From now on, value files are no longer held for
// commits that are not kept. freed says that feeds held some of them so far.
//
// The caller, which is the flusher, records the spans and then calls ReleaseLog.
func (c *Committer) KeepLog(first base.SegmentRef) (spans []base.LogSpan, freed bool) {
	oldest, from := c.History.keep(first, c.retention())
	if mutant.On(mutant.FeedForget) {
		oldest, from = first, base.SeqNumMax
	}
	state := c.store.State()
	flushed := state.FlushedSeq + 1
	held := min(flushed, c.Held.keptFrom())
	if from != base.SeqNumMax {
		from = max(from, held) // what was not held while it was in memtables may be gone
	}
	c.Held.keepFrom(from)
	return spansFrom(state.Spans, oldest), min(flushed, from) > held
}

// spansFrom returns spans without what is before the segment first, and at most spansKept
// of them.
func spansFrom(spans []base.LogSpan, first base.SegmentRef) []base.LogSpan {
	from := 0
	for from+1 < len(spans) && spans[from+1].First.Number <= first.Number {
		from++
	}
	spans = slices.Clone(spans[from:])
	spans[0].First = first
	return spans[max(0, len(spans)-spansKept):]
}

// SyncForFeeds makes everything durable that is in memtables to be flushed, if the log is
// kept for feeds. Otherwise a power cut could take commits from the log that tables have.
func (c *Committer) SyncForFeeds() error {
	if c.retention() == 0 || mutant.On(mutant.FeedUnsyncedFlush) {
		return nil
	}
	return c.syncVisible()
}

// syncVisible makes all visible commits durable.
func (c *Committer) syncVisible() error {
	upTo := c.store.Visible()
	l := c.log.Load()
	if base.SeqNum(c.History.durable.Load()) >= upTo {
		return nil
	}
	if l == nil {
		if !c.recovered.Unproven() {
			c.History.raiseDurable(upTo) // all of it is in tables
		}
		return nil
	}
	if err := l.Sync(); err != nil {
		return c.Fail(err)
	}
	c.History.raiseDurable(upTo)
	return nil
}

// SpansToReplay returns the number of spans of the log that recovery needs.
func (c *Committer) SpansToReplay() int {
	state := c.store.State()
	s, _, ok := c.History.find(state.FlushedSeq + 1)
	if !ok {
		return min(1, len(state.Spans))
	}
	return len(spansFrom(state.Spans, s.ref))
}

// NeededLogBytes returns the size in bytes of the segments of the log that recovery needs.
func (c *Committer) NeededLogBytes() int64 {
	v := c.store.View()
	return c.log.Load().NeededFrom(v.LogFrom[len(v.LogFrom)-1].Number)
}

// KeepsTooMuch reports whether feeds keep commits that are in tables, and should not. The
// retention may have become less when the database opened.
func (c *Committer) KeepsTooMuch() bool {
	flushed, bytes := c.store.State().FlushedSeq, c.retention()
	return bytes == 0 && c.Held.keptFrom() <= flushed || c.History.keepsMore(flushed, bytes)
}

// keptBytes returns about how many bytes of the disk are kept only for feeds. It counts
// segments of the log, and garbage in value files.
func (c *Committer) keptBytes() int64 {
	state := c.store.State()
	bytes := c.History.keptBytes(state.FlushedSeq)
	for _, f := range state.Version.Values {
		if c.Held.Kept(f.Num) {
			bytes += int64(f.Bytes - min(f.Live, f.Bytes))
		}
	}
	return bytes
}
