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

// A LogReader reads the transactions of the log in the order of their versions, for a feed.
// Until its end, the log keeps more.
type LogReader struct {
	c    *Committer
	next base.SeqNum // the version of the next transaction
	in   stretch     // where it is
	r    *log.SegmentReader
	rung <-chan struct{} // of the commit that Wait waits for, if it is not nil
	// failure is the error that had ended all commits when Wait began to wait, or nil.
	failure error
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
	if err := c.syncVisible(); err != nil {
		return after, err
	}
	return min(base.SeqNum(c.History.durable.Load()), c.store.Visible()), nil
}

// Wait waits until another commit may have come. The caller then asks Deliverable again: it
// finds what came before Wait began to wait. If no other commit can come, Wait returns
// ErrFailed. A group that was built before the failure may still succeed, so Wait first waits
// for it.
func (r *LogReader) Wait(ctx context.Context) error {
	r.rest() // the file may be deleted meanwhile
	if r.rung == nil {
		r.rung = r.c.History.Rung()
		if r.failure = r.c.Failed(); r.failure != nil { // a later failure rings
			return r.c.awaitGroup(ctx)
		}
		return nil
	}
	if r.failure != nil {
		return r.failure
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

// Keeps reports whether a view, which the caller holds, has the value files of a commit
// that Next returned. If not, a feed can begin after the version oldest.
func (r *LogReader) Keeps(_ *state.View, seq base.SeqNum, _ []base.FileNum) (oldest base.SeqNum, ok bool) {
	// After the view was taken: the collector may drop files when this version rises.
	from := min(r.c.Held.keptFrom(), r.c.store.State().FlushedSeq+1)
	return from - 1, seq >= from || mutant.On(mutant.FeedLoseValues)
}

// written returns the offset below which a segment is written.
func (c *Committer) written(segment uint64) int64 {
	if l := c.log.Load(); l != nil {
		return l.Written(segment)
	}
	return math.MaxInt64
}
