package commit

import (
	"context"
	"io"
	"math"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/payload"
	"github.com/stoatdb/stoat/internal/state"
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
	spans = append([]base.LogSpan(nil), spans[from:]...)
	spans[0].First = first
	return spans[max(0, len(spans)-spansKept):]
}

// SyncForFeeds makes everything durable that is in memtables to be flushed, if the log is
// kept for feeds. Otherwise a power cut could take commits from the log that tables have.
func (c *Committer) SyncForFeeds() error {
	if c.retention() == 0 || mutant.On(mutant.FeedUnsyncedFlush) {
		return nil
	}
	return c.syncLog()
}

// syncLog makes all visible commits durable.
func (c *Committer) syncLog() error {
	upTo := c.store.Visible()
	l := c.log.Load()
	switch {
	case base.SeqNum(c.History.durable.Load()) >= upTo:
		return nil
	case l == nil && !c.recovered.Unproven():
		c.History.raiseDurable(upTo) // all of it is in tables
		return nil
	case l == nil:
		return nil
	}
	c.Counts.Syncs.Add(1)
	if err := l.Sync(); err != nil {
		return c.Fail(err)
	}
	c.History.raiseDurable(upTo)
	return nil
}

// Deliverable returns the newest version that a feed may deliver. Without buffered, that
// commit is durable: if a later one than After is visible, Deliverable syncs the log.
func (r *LogReader) Deliverable(_ context.Context, buffered bool) (base.SeqNum, error) {
	c, after := r.c, r.After()
	visible := c.store.Visible()
	if buffered || visible <= after || mutant.On(mutant.FeedUnsynced) {
		return visible, nil
	}
	if durable := base.SeqNum(c.History.durable.Load()); durable > after {
		return min(durable, visible), nil
	}
	if err := c.syncLog(); err != nil {
		return after, err
	}
	return min(base.SeqNum(c.History.durable.Load()), c.store.Visible()), nil
}

// A LogReader reads the transactions of the log in the order of their versions, for a feed.
// Until its end, the log keeps more.
type LogReader struct {
	c    *Committer
	next base.SeqNum // the version of the next transaction
	in   stretch     // where it is
	r    *log.SegmentReader
	rung <-chan struct{} // of the commit that Wait waits for, if it is not nil
}

// ReadLog returns a reader of the transactions after a version. The caller closes it.
func (c *Committer) ReadLog(after base.SeqNum) *LogReader {
	c.History.feeds.Add(1)
	return &LogReader{c: c, next: after + 1}
}

// Close ends the reader.
func (r *LogReader) Close() {
	r.rest()
	if r.c.History.feeds.Add(-1) == 0 && r.c.KeepsTooMuch() {
		r.c.o.Flush()
	}
}

// After returns the version of the last transaction that Next returned.
func (r *LogReader) After() base.SeqNum { return r.next - 1 }

// Wait waits until another commit may have come. The caller then asks Deliverable again: it
// finds what came before Wait began to wait.
func (r *LogReader) Wait(ctx context.Context) error {
	r.rest() // the file may be deleted meanwhile
	if r.rung == nil {
		r.rung = r.c.History.Rung()
		return nil
	}
	select {
	case <-r.rung:
		r.rung = nil
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Next returns the next transaction, which is valid until the next call, as package payload
// encodes it. The caller knows that it is visible.
func (r *LogReader) Next(context.Context) (encoded []byte, err error) {
	for {
		if err := r.seek(); err != nil {
			return nil, err
		}
		if r.r == nil {
			r.r, err = log.ReadSegment(r.c.o.Log, r.in.ref)
		}
		if err == nil {
			encoded, err = r.r.Next(r.c.written(r.in.ref.Number))
		}
		if err != nil {
			if err = r.failed(err); err != nil {
				return nil, err
			}
			continue
		}
		seq, err := payload.SeqOf(encoded)
		switch {
		case err != nil:
			return nil, err
		case seq < r.next:
			continue
		case seq > r.next:
			return nil, base.Corrupt(-1, "sequence number of a transaction", uint64(seq), uint64(r.next))
		}
		r.next++
		return encoded, nil
	}
}

// seek finds the stretch of the next transaction, unless the reader is there.
func (r *LogReader) seek() error {
	if r.r != nil && r.next <= r.in.last && r.in.last != base.SeqNumMax {
		return nil
	}
	s, oldest, ok := r.c.History.find(r.next)
	if !ok && mutant.On(mutant.FeedGap) && oldest != base.SeqNumMax && oldest >= r.next {
		r.next = oldest + 1
		s, _, ok = r.c.History.find(r.next)
	}
	if !ok {
		return r.gone(oldest)
	}
	if s.ref != r.in.ref {
		r.leave()
	}
	r.in = s
	return nil
}

// gone returns the error of a transaction that the log does not have.
func (r *LogReader) gone(oldest base.SeqNum) error {
	if oldest == base.SeqNumMax { // the log has no transaction
		oldest = r.c.store.Visible()
	}
	return base.LogGoneError{Oldest: max(oldest, r.next)}
}

// failed returns the error for err, with which a segment was read. The log may have freed the
// segment meanwhile. Or it has written the commits again elsewhere: then the error is nil, and
// the reader goes on there.
func (r *LogReader) failed(err error) error {
	r.leave()
	s, oldest, ok := r.c.History.find(r.next)
	switch {
	case !ok:
		return r.gone(oldest)
	case s.ref != r.in.ref:
		return nil
	case err == io.EOF:
		// Tables have the transaction, and the log never had it.
		return r.gone(r.c.store.Visible())
	}
	return err
}

// rest closes the file that is open. The reader opens it again when needed.
func (r *LogReader) rest() {
	if r.r != nil {
		r.r.Rest()
	}
}

// leave leaves the segment.
func (r *LogReader) leave() {
	r.rest()
	r.r = nil
}

// written returns the offset below which a segment is written.
func (c *Committer) written(segment uint64) int64 {
	if l := c.log.Load(); l != nil {
		return l.Written(segment)
	}
	return math.MaxInt64
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

// Keeps reports whether a view, which the caller holds, has the value files of a commit
// that Next returned. If not, a feed can begin after the version oldest.
func (r *LogReader) Keeps(_ *state.View, seq base.SeqNum, _ []base.FileNum) (oldest base.SeqNum, ok bool) {
	// After the view was taken: the collector may drop files when this version rises.
	from := min(r.c.Held.keptFrom(), r.c.store.State().FlushedSeq+1)
	return from - 1, seq >= from || mutant.On(mutant.FeedLoseValues)
}

// KeepsTooMuch reports whether feeds keep commits that are in tables, and should not. The
// retention may have become less when the database opened.
func (c *Committer) KeepsTooMuch() bool {
	flushed, bytes := c.store.State().FlushedSeq, c.retention()
	return bytes == 0 && c.Held.keptFrom() <= flushed || c.History.keepsMore(flushed, bytes)
}

// keepsMore reports whether keep would give up a segment before those with commits after
// flushed.
func (h *History) keepsMore(flushed base.SeqNum, bytes int64) bool {
	kept := h.keptBytes(flushed)
	if kept == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.stretches) > 0 && kept-h.stretches[0].size >= bytes
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
