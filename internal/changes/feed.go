package changes

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
)

// An Engine has what feeds use of a database.
type Engine struct {
	Store *state.Store
	Group *work.Group
	// Log returns a reader of the transactions after a version. It is nil if the log cannot
	// be read.
	Log func(after base.SeqNum) Log
	// Refresh shows a follower what the writer has committed. It is nil in a writer.
	Refresh func(ctx context.Context) error
}

// A Log reads the transactions of the log in the order of their versions.
type Log interface {
	// Deliverable returns the newest version that a feed may deliver. Without buffered, that
	// commit is durable.
	Deliverable(ctx context.Context, buffered bool) (base.SeqNum, error)
	// Wait returns when Deliverable may return more than before, or without a reason. Its
	// error says why nothing more comes.
	Wait(ctx context.Context) error
	// After returns the version of the last transaction that Next returned.
	After() base.SeqNum
	// Next returns the next transaction, which is valid until the next call. The caller
	// knows from Deliverable that there is one. The error is base.LogGoneError if the log
	// does not have it.
	Next(ctx context.Context) (encoded []byte, err error)
	// Keeps reports whether a view, which the caller holds, has the value files of a commit
	// that Next returned. If not, a feed can begin after the version oldest.
	Keeps(v *state.View, seq base.SeqNum, files []base.FileNum) (oldest base.SeqNum, ok bool)
	// Close ends the reader.
	Close()
}

// Subscribe is stoat.DB.Subscribe.
func (e *Engine) Subscribe(ctx context.Context, o feed.Options) iter.Seq2[feed.Commit, error] {
	return func(yield func(feed.Commit, error) bool) {
		err := e.check(ctx, &o)
		if err == nil {
			err = e.deliver(ctx, &o, func(c feed.Commit) bool { return yield(c, nil) })
		}
		if err != nil {
			yield(feed.Commit{}, err)
		}
	}
}

// deliver calls yield, which may panic, for each commit until it returns false.
func (e *Engine) deliver(ctx context.Context, o *feed.Options, yield func(feed.Commit) bool) error {
	s := newSubscription(e, o)
	defer s.close()
	return s.run(ctx, yield)
}

// check returns why no feed can begin.
func (e *Engine) check(ctx context.Context, o *feed.Options) error {
	ctx, end, err := e.Group.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if e.Refresh != nil {
		err = e.Refresh(ctx)
	}
	if err = work.Ended(ctx, err); err != nil {
		return err
	}
	visible := uint64(e.Store.Visible())
	switch {
	case e.Store.Closed():
		return base.ErrClosed
	case e.Log == nil:
		return base.ErrReadOnly
	case o.After > visible:
		return base.Invalid("feed.Options.After is %d, but the newest version is %d", o.After, visible)
	}
	return nil
}

// progressEvery is the number of commits without changes for the feed after which the
// feed says how far it is.
const progressEvery = 4096

// A subscription is a feed under way. One goroutine uses it.
type subscription struct {
	*Engine
	buffered bool
	log      Log
	names    names
	filter   filter

	passed int // commits since the last one that was delivered
	// dropped are the numbers of dropped keyspaces whose changes the feed has left out.
	dropped map[uint32]bool

	// Of the present commit.
	seq    base.SeqNum
	items  []item
	ranges []item // the range deletions and the drops of items, while it is decoded
	steps  []partial.Step
	files  []base.FileNum // the value files of its values
	key    []byte         // memory for a decoded key
	arena  codec.Arena
	slot   *state.Slot // nil without values in value files
	view   *state.View
}

func newSubscription(e *Engine, o *feed.Options) *subscription {
	after := base.SeqNum(o.After)
	if mutant.On(mutant.FeedTwice) && after > 0 {
		after--
	}
	s := &subscription{Engine: e, buffered: o.Buffered, log: e.Log(after)}
	s.filter = filter{prefix: o.Prefix, all: o.Keyspaces == nil, names: o.Keyspaces}
	return s
}

func (s *subscription) close() {
	s.release()
	s.log.Close()
}

// run delivers commits until deliver returns false.
func (s *subscription) run(ctx context.Context, deliver func(feed.Commit) bool) error {
	for {
		upTo, err := s.await(ctx)
		if err != nil {
			return err
		}
		for s.log.After() < upTo {
			if err := ctx.Err(); err != nil {
				return err
			}
			c, err := s.next(ctx)
			if err != nil {
				return err
			}
			caughtUp := s.log.After() >= upTo
			if len(s.items) == 0 && s.filter.some() && !caughtUp && s.passed < progressEvery {
				s.passed++
				continue
			}
			s.passed = 0
			more := deliver(c)
			s.release()
			if !more {
				return nil
			}
		}
	}
}

// await waits until there is a commit to deliver. It returns up to which version there are
// some.
func (s *subscription) await(ctx context.Context) (base.SeqNum, error) {
	ctx, end, err := s.Group.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	for {
		upTo, err := s.log.Deliverable(ctx, s.buffered)
		if err == nil && upTo > s.log.After() {
			return upTo, nil
		}
		if err == nil {
			err = s.log.Wait(ctx)
		}
		if err = work.Ended(ctx, err); err != nil {
			return 0, err
		}
	}
}

// next reads the next commit. The caller knows that there is one.
func (s *subscription) next(ctx context.Context) (feed.Commit, error) {
	if !s.Group.Enter() {
		return feed.Commit{}, base.ErrClosed
	}
	defer s.Group.Leave()
	if mutant.On(mutant.FeedSkip) && s.log.After()%97 == 96 {
		_, _ = s.log.Next(ctx)
	}
	after := s.log.After()
	payload, err := s.log.Next(ctx)
	if err != nil {
		var gone base.LogGoneError
		switch {
		case errors.As(err, &gone):
			err = &feed.GoneError{After: uint64(after), Oldest: uint64(gone.Oldest)}
		case errors.Is(err, work.ErrStopped):
			err = base.ErrClosed
		}
		return feed.Commit{}, err
	}
	head, err := s.decode(payload)
	if err == nil {
		err = s.holdValues()
	}
	if err != nil {
		return feed.Commit{}, err
	}
	return feed.Commit{Version: uint64(head.Seq), Time: time.UnixMilli(int64(head.TimeMs)), Changes: s.changes(head.Seq)}, nil
}

// holdValues holds a view if the commit has values in value files.
func (s *subscription) holdValues() (err error) {
	s.files = s.files[:0]
	for i := range s.items {
		if s.items[i].meta.Kind == base.KindPointer {
			p, err := values.DecodePointer(s.items[i].value)
			if err != nil {
				return err
			}
			s.files = append(s.files, p.File)
		}
	}
	if len(s.files) == 0 {
		return nil
	}
	if s.slot, s.view, err = s.Store.HoldView(); err != nil {
		s.slot = nil
		return err
	}
	if oldest, ok := s.log.Keeps(s.view, s.seq, s.files); !ok {
		return &feed.GoneError{After: uint64(s.seq) - 1, Oldest: uint64(oldest)}
	}
	return nil
}

// elementsKept is the number of elements of which a feed keeps the memory from one commit to
// the next.
const elementsKept = 4096

// emptied returns s without elements. It lets go of what they refer to, and of the memory of
// many.
func emptied[E any](s []E) []E {
	if cap(s) > elementsKept {
		return nil
	}
	clear(s)
	return s[:0]
}

// release ends the loan of the present commit. The feed keeps nothing that refers to the
// transaction.
func (s *subscription) release() {
	s.seq = 0
	s.items, s.ranges = emptied(s.items), emptied(s.ranges)
	s.steps, s.files = emptied(s.steps), emptied(s.files)
	if s.slot != nil {
		s.arena.Reset()
		s.Store.Release(s.slot)
		s.slot, s.view = nil, nil
	}
}
