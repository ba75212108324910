package changes

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/work"
)

// An Engine has what feeds use of a database.
type Engine struct {
	Store   *state.Store
	Commits *commit.Committer
	Group   *work.Group
}

// Subscribe is stoat.DB.Subscribe.
func (e *Engine) Subscribe(ctx context.Context, o feed.Options, readOnly bool) iter.Seq2[feed.Commit, error] {
	return func(yield func(feed.Commit, error) bool) {
		err := e.check(&o, readOnly)
		if err == nil {
			s := newSubscription(e, &o)
			err = s.run(ctx, func(c feed.Commit) bool { return yield(c, nil) })
			s.close()
		}
		if err != nil {
			yield(feed.Commit{}, err)
		}
	}
}

// check returns why no feed can begin.
func (e *Engine) check(o *feed.Options, readOnly bool) error {
	visible := uint64(e.Store.Visible())
	switch {
	case e.Store.Closed():
		return base.ErrClosed
	case readOnly:
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
	log      *commit.LogReader
	end      func()
	names    names
	filter   filter

	passed int // commits since the last one that was delivered

	// Of the present commit.
	seq   base.SeqNum
	items []item
	steps []partial.Step
	key   []byte // memory for a decoded key
	arena codec.Arena
	slot  *state.Slot // nil without values in value files
	view  *state.View
}

func newSubscription(e *Engine, o *feed.Options) *subscription {
	after := base.SeqNum(o.After)
	if mutant.On(mutant.FeedTwice) && after > 0 {
		after--
	}
	s := &subscription{Engine: e, buffered: o.Buffered, log: e.Commits.ReadLog(after), end: e.Commits.History.Begin()}
	s.filter = filter{prefix: o.Prefix, all: o.Keyspaces == nil, names: o.Keyspaces}
	return s
}

func (s *subscription) close() {
	s.release()
	s.log.Rest()
	s.end()
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
			c, err := s.next()
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
	var rung <-chan struct{}
	for {
		upTo, err := s.Commits.Deliverable(s.log.After(), s.buffered)
		if err != nil || upTo > s.log.After() {
			return upTo, err
		}
		if rung == nil {
			s.log.Rest() // the file may be deleted meanwhile
			rung = s.Commits.History.Rung()
			continue // a commit may have become visible before
		}
		select {
		case <-rung:
			rung = nil
		case <-ctx.Done():
			return 0, work.Interrupted(ctx)
		}
	}
}

// next reads the next commit. The caller knows that there is one.
func (s *subscription) next() (feed.Commit, error) {
	if !s.Group.Enter() {
		return feed.Commit{}, base.ErrClosed
	}
	defer s.Group.Leave()
	if mutant.On(mutant.FeedSkip) && s.log.After()%97 == 96 {
		s.log.Skip(s.log.After() + 1)
	}
	after := s.log.After()
	payload, err := s.log.Next()
	if err != nil {
		var gone commit.LogGoneError
		if errors.As(err, &gone) {
			err = &feed.GoneError{After: uint64(after), Oldest: uint64(gone.Oldest)}
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
	needed := false
	for i := range s.items {
		needed = needed || s.items[i].meta.Kind == base.KindPointer
	}
	if !needed {
		return nil
	}
	if s.slot, s.view, err = s.Store.HoldView(); err != nil {
		s.slot = nil
		return err
	}
	// After the view was taken: the collector may drop files when this version rises.
	if from := s.Commits.ValuesFrom(); s.seq < from && !mutant.On(mutant.FeedLoseValues) {
		return &feed.GoneError{After: uint64(s.seq) - 1, Oldest: uint64(from) - 1}
	}
	return nil
}

// release ends the loan of the present commit.
func (s *subscription) release() {
	s.seq = 0
	if s.slot != nil {
		s.arena.Reset()
		s.Store.Release(s.slot)
		s.slot, s.view = nil, nil
	}
}
