package follow

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/payload"
	"github.com/stoatdb/stoat/internal/state"
)

// A LogReader reads the transactions of the log in the order of their versions, for a feed.
// It reads the files of the log on its own: the follower keeps no transactions. It takes
// what the newest manifest names, so the writer may free segments meanwhile.
type LogReader struct {
	f    *Follower
	next base.SeqNum
	log  *log.Follower // nil before the log is read anew
	wait time.Duration
}

// waitDefault is how long a feed waits before it looks for commits, if the follower looks
// for them only when told.
const waitDefault = 10 * time.Millisecond

// ReadLog returns a reader of the transactions after a version.
func (f *Follower) ReadLog(after base.SeqNum) *LogReader {
	return &LogReader{f: f, next: after + 1, wait: f.feedEvery()}
}

// feedEvery returns the shortest pause of a feed.
func (f *Follower) feedEvery() time.Duration {
	if f.o.Every > 0 {
		return f.o.Every
	}
	return waitDefault
}

// After returns the version of the last transaction that Next returned.
func (r *LogReader) After() base.SeqNum { return r.next - 1 }

// Deliverable returns the newest version that a feed may deliver. Without buffered, that
// commit is durable: if there is a later one than After, Deliverable syncs the files of the
// log.
func (r *LogReader) Deliverable(ctx context.Context, buffered bool) (base.SeqNum, error) {
	if err := r.f.Refresh(ctx); err != nil {
		return 0, err
	}
	upTo := r.f.store.Visible()
	if upTo > r.After() && !buffered && !mutant.On(mutant.FeedFollowsUnsynced) {
		if err := r.f.Sync(ctx); err != nil {
			return 0, err
		}
		upTo = min(upTo, r.f.store.Visible())
	}
	if r.log != nil && !r.log.Within(r.f.store.State().Spans) {
		r.rest() // another writer may have begun where the reader is
	}
	if upTo > r.After() {
		r.wait = r.f.feedEvery()
	}
	return upTo, nil
}

// Wait waits until another commit may have come.
func (r *LogReader) Wait(ctx context.Context) error {
	err := r.f.o.Group.Sleep(ctx, r.wait)
	r.wait = min(2*r.wait, idlePart*r.f.feedEvery())
	return err
}

// Next returns the next transaction, which is valid until the next call, as package payload
// encodes it. The caller knows that readers of the follower see it. The error is
// base.LogGoneError if the log does not have it.
func (r *LogReader) Next(ctx context.Context) (encoded []byte, err error) {
	for try := range triesMax {
		if r.log == nil {
			r.log = log.Follow(r.f.o.Log, r.f.store.State().Spans)
		}
		encoded, err = r.read(ctx)
		if err == nil || errors.As(err, new(base.LogGoneError)) {
			return encoded, err
		}
		if err == io.EOF {
			if damage := r.log.Damaged(); damage != nil {
				err = damage
			}
		}
		// Refresh comes after the pause: in the pause, the writer may free what the state names.
		if e := r.f.o.Group.Sleep(ctx, min(time.Duration(try)*time.Millisecond, pauseMax)); e != nil {
			return nil, e
		}
		visible := r.f.store.Visible()
		if e := r.f.Refresh(ctx); e != nil {
			return nil, e
		}
		s := r.f.store.State()
		within := r.log.Within(s.Spans)
		switch {
		case within && try > 0 && err == io.EOF && r.log.Newest() && r.next <= max(s.FlushedSeq, s.LastSeq):
			// Tables have the transaction, and the log never had it.
			return nil, base.LogGoneError{Oldest: max(visible, r.next)}
		case within && try > 0 && err == io.EOF && r.log.Newest():
			return nil, base.Corrupt(-1, "transaction in the log", "none", uint64(r.next))
		case within && try > 2 && errors.Is(err, base.ErrCorrupt):
			return nil, err
		}
		// The writer may have freed the segment, or another writer has begun a span.
		r.rest()
	}
	if err == io.EOF || errors.Is(err, base.ErrCorrupt) { // of segments that were freed
		err = errBehind
	}
	return nil, err
}

// read reads transactions up to the next one.
func (r *LogReader) read(ctx context.Context) ([]byte, error) {
	for {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := r.f.o.Group.Err(); err != nil {
			return nil, err
		}
		encoded, err := r.log.Next()
		if err != nil {
			return nil, err
		}
		seq, err := payload.SeqOf(encoded)
		switch {
		case err != nil:
			return nil, err
		case seq < r.next:
			continue
		case seq > r.next && !mutant.On(mutant.FeedFollowsGap):
			return nil, base.LogGoneError{Oldest: seq - 1}
		}
		r.next = seq + 1
		return encoded, nil
	}
}

// Keeps reports whether a view, which the caller holds, has the value files of a commit
// that Next returned. If not, a feed can begin after the version oldest.
func (r *LogReader) Keeps(v *state.View, seq base.SeqNum, files []base.FileNum) (oldest base.SeqNum, ok bool) {
	for _, n := range files {
		f, found := v.Tree.Version.Value(n)
		if (!found || f.File != n) && !mutant.On(mutant.FeedFollowsValues) {
			return max(seq, r.f.store.State().FlushedSeq), false
		}
	}
	return 0, true
}

// Close ends the reader.
func (r *LogReader) Close() { r.rest() }

// rest closes the file that is open. Another call of Next reads the log anew.
func (r *LogReader) rest() {
	if r.log != nil {
		r.log.Close()
		r.log = nil
	}
}
