package changes

import (
	"bytes"
	"iter"
	"slices"
	"time"

	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/payload"
	"github.com/stoatdb/stoat/internal/stamp"
)

// An item is an entry of the log that the feed has. Its bytes are slices of the
// transaction.
type item struct {
	in     *named
	stored []byte // the stored key
	value  []byte
	meta   base.Meta
	// Of a range: the bounds as the user's keys.
	key, end []byte
	drop     bool // of the keyspace
}

// decode takes the items of a transaction, the range deletions first: in a transaction
// they hide nothing that the log has of it.
func (s *subscription) decode(encoded []byte) (head payload.Header, err error) {
	s.items, s.ranges, s.seq = s.items[:0], s.ranges[:0], 0
	s.names.set(s.Store.State().Keyspaces)
	err = payload.Decode(encoded, func(h payload.Header) error {
		head = h
		return nil
	}, func(key, value []byte, m base.Meta) error {
		if m.Kind != base.KindDeleteRange {
			return s.add(key, value, m)
		}
		if err := s.addRanges(key, value); err != nil {
			return err
		}
		s.addDrop(key, value)
		return nil
	})
	s.items = slices.Insert(s.items, 0, s.ranges...)
	s.seq = head.Seq
	if n := len(s.items); mutant.On(mutant.FeedHalf) && n > 1 {
		s.items = s.items[:n-1]
	}
	return head, err
}

// add takes an entry if the feed has it.
func (s *subscription) add(stored, value []byte, m base.Meta) error {
	number, err := keyspace.NumberOf(stored)
	if err != nil {
		return err
	}
	in := s.names.find(number)
	if in == nil {
		s.items = s.leaveOut(s.items, number)
		return nil
	}
	if !s.filter.takes(in) {
		return nil
	}
	i := item{in: in, stored: stored, value: value, meta: m}
	if len(s.filter.prefix) > 0 && (s.filter.all || !mutant.On(mutant.FeedNoPrefix)) {
		key, _, err := s.userKey(&i)
		if err != nil || !bytes.HasPrefix(key, s.filter.prefix) {
			return err
		}
	}
	s.items = append(s.items, i)
	return nil
}

// addDrop takes the deletion of all keys of a dropped keyspace as its drop, and leaves out
// the deletion of some of them.
func (s *subscription) addDrop(lo, hi []byte) {
	number, whole := s.names.dropOf(lo, hi)
	if whole {
		delete(s.dropped, number) // the feed has it here, too
	}
	if number != 0 {
		s.ranges = s.leaveOut(s.ranges, number)
	}
}

// leaveOut tells the feed once that a keyspace was dropped, because the feed leaves out a
// change of it: it appends the drop to items. A crash may have kept the drop itself from the
// log.
func (s *subscription) leaveOut(items []item, number uint32) []item {
	if s.dropped[number] || mutant.On(mutant.FeedNoDrops) {
		return items
	}
	if s.dropped == nil {
		s.dropped = map[uint32]bool{}
	}
	s.dropped[number] = true
	if in := s.names.gone(number); s.filter.takesDrop(in) {
		items = append(items, item{in: in, drop: true})
	}
	return items
}

// userKey returns the user's key of an item, and its timestamp if there are any. The key is
// valid until the next call.
func (s *subscription) userKey(i *item) (key []byte, at uint64, err error) {
	key = i.stored[i.in.Skip(i.stored):]
	if !i.in.timed {
		return key, 0, nil
	}
	s.key = slices.Grow(s.key[:0], len(key))
	key, at, ok := stamp.Decode(key, s.key)
	if !ok {
		return nil, 0, base.Corrupt(-1, "key of a keyspace with timestamps", "not encoded", "an encoded one")
	}
	return key, at, nil
}

// addRanges takes the deletion of a range of stored keys, for each keyspace that it meets.
// An empty hi is no bound.
func (s *subscription) addRanges(lo, hi []byte) error {
	if mutant.On(mutant.FeedNoRanges) {
		return nil
	}
	for _, in := range s.names.within(lo, hi) {
		if !s.filter.takes(in) && !mutant.On(mutant.FeedForeignRange) {
			continue
		}
		i := item{in: in, meta: base.Meta{Kind: base.KindDeleteRange}}
		var err error
		if bytes.Compare(lo, in.lower) > 0 && !bytes.Equal(lo, base.FirstKey) {
			i.key, err = in.boundOf(lo)
		}
		if err == nil && len(hi) > 0 && bytes.Compare(hi, in.upper) < 0 {
			i.end, err = in.boundOf(hi)
		}
		if err != nil {
			return err
		}
		if s.filter.takesRange(i.key, i.end) {
			s.ranges = append(s.ranges, i)
		}
	}
	return nil
}

// boundOf returns the user's key of a bound of stored keys in the keyspace.
func (n *named) boundOf(stored []byte) ([]byte, error) {
	key := stored[min(n.Skip(stored), len(stored)):]
	if !n.timed {
		return key, nil
	}
	key, _, ok := stamp.Decode(stamp.AppendTimestamp(bytes.Clone(key), 0), make([]byte, 0, len(key)))
	if !ok {
		return nil, base.Corrupt(-1, "bound in a keyspace with timestamps", "not encoded", "an encoded one")
	}
	return key, nil
}

// changes returns the loop over the changes of the present commit.
func (s *subscription) changes(seq base.SeqNum) iter.Seq2[feed.Change, error] {
	return func(yield func(feed.Change, error) bool) {
		for n := 0; s.seq == seq && n < len(s.items); n++ {
			more, err := s.show(&s.items[n], yield)
			if err != nil {
				yield(feed.Change{}, err)
			}
			if err != nil || !more {
				return
			}
		}
		if s.seq != seq {
			yield(feed.Change{}, base.ErrTxnDone)
		}
	}
}

// show calls yield for the changes of an item. It reports whether the loop continues.
func (s *subscription) show(i *item, yield func(feed.Change, error) bool) (more bool, err error) {
	c := feed.Change{Keyspace: i.in.name, KeyspaceID: i.in.Number(), UserMeta: i.meta.User, ExpiresAt: base.ExpiryTime(i.meta.ExpiresAt &^ stamp.ExpiryMark)}
	if i.drop {
		c.Kind = feed.DropKeyspace
		return yield(c, nil), nil
	}
	if i.meta.Kind == base.KindDeleteRange {
		c.Kind, c.Key, c.End = feed.DeleteRange, i.key, i.end
		return yield(c, nil), nil
	}
	if c.Key, c.Timestamp, err = s.userKey(i); err != nil {
		return false, err
	}
	switch i.meta.Kind {
	case base.KindSet:
		c.Kind, c.Value = feed.Set, i.value
	case base.KindPointer:
		c.Kind = feed.Set
		if c.Value, err = s.fetch(i); err != nil {
			return false, err
		}
	case base.KindMerge, base.KindRenew:
		return s.showSteps(c, i, yield)
	default:
		c.Kind = feed.Delete
	}
	return yield(c, nil), nil
}

// showSteps calls yield for the steps of a partial entry.
func (s *subscription) showSteps(c feed.Change, i *item, yield func(feed.Change, error) bool) (more bool, err error) {
	if s.steps, err = partial.Decode(emptied(s.steps), i.meta.Kind, i.value); err != nil {
		return false, err
	}
	for _, step := range s.steps {
		c.Kind, c.Value, c.ExpiresAt = feed.Merge, step.Operand, time.Time{}
		if step.Operand == nil {
			c.Kind, c.ExpiresAt = feed.Renew, base.ExpiryTime(step.Expires)
		}
		if !yield(c, nil) {
			return false, nil
		}
	}
	return true, nil
}

// fetch reads the value that an item points to.
func (s *subscription) fetch(i *item) (value []byte, err error) {
	defer fault.Enter().Leave(&err)
	s.arena.Reset()
	return s.view.Tree.Value(i.value, i.stored, s.seq, &s.arena)
}
