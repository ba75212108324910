package transaction

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/stamp"
)

// A TimedIterator is stoat.TimedIterator.
type TimedIterator struct{ c *timedCore }

// stepsMax is how many versions of a key an iterator passes one by one. It seeks over
// the others.
const stepsMax = 8

// A timedCore is the state of a TimedIterator. Forward, versions is at the version that
// is shown. Backward, versions is at the next key already, because the versions of a
// key come with ascending timestamps. With all, versions is at the version that is
// shown in both directions.
type timedCore struct {
	t        TimedTxn
	versions Iterator
	all      bool // IterOptions.AllVersions
	// reverse is the direction of the iteration now. turned says that it is not that of
	// IterOptions.Reverse.
	reverse, turned bool
	begun           bool
	valid           bool
	err             error // of the iterator itself; versions has its own

	behind Item // the current version, if versions is not at it
	// stored has the key of behind.
	stored []byte
	key    []byte // memory for the current user's key, if it has zero bytes
	seek   []byte // memory for keys to seek
	// group is what the stored versions of the current key begin with. While valid is set,
	// that is the key that is shown.
	group []byte
}

// Iterator is stoat.TimedTxn.Iterator.
func (t TimedTxn) Iterator(o IterOptions) TimedIterator {
	c := &timedCore{t: t, all: o.AllVersions, reverse: o.Reverse}
	it := TimedIterator{c}
	if c.err = t.check(); c.err != nil {
		return it
	}
	if o.Since > 0 && !o.AllVersions {
		c.err = base.Invalid("IterOptions.Since at a timestamp needs AllVersions")
		return it
	}
	lower, upper := base.WithPrefix(o.Lower, o.Upper, o.Prefix, nil)
	o.Lower, o.Upper, o.Prefix, o.AllVersions = encodeBound(lower), encodeBound(upper), nil, false
	c.versions = t.tx.Iterator(o)
	c.versions.setTimed(t.reads(timedUpTo, c))
	return it
}

// First is stoat.TimedIterator.First.
func (it TimedIterator) First() bool { return it.fromEnd(false) }

// Last is stoat.TimedIterator.Last.
func (it TimedIterator) Last() bool { return it.fromEnd(true) }

// fromEnd is Last if turned, and First otherwise.
func (it TimedIterator) fromEnd(turned bool) bool {
	if !it.ready() {
		return false
	}
	it.c.face(turned)
	it.c.versions.seek(nil, turned)
	return it.c.find()
}

// Seek is stoat.TimedIterator.Seek.
func (it TimedIterator) Seek(key []byte) bool {
	if !it.ready() {
		return false
	}
	c := it.c
	c.face(false)
	if c.reverse {
		c.seek = stamp.AppendAfter(c.seek[:0], key)
	} else {
		c.seek = stamp.AppendKey(c.seek[:0], key)
	}
	c.versions.Seek(c.seek)
	return c.find()
}

// Next is stoat.TimedIterator.Next.
func (it TimedIterator) Next() bool { return it.step(false) }

// Prev is stoat.TimedIterator.Prev.
func (it TimedIterator) Prev() bool { return it.step(true) }

// step is Prev if turned, and Next otherwise.
func (it TimedIterator) step(turned bool) bool {
	if !it.ready() {
		return false
	}
	c := it.c
	switch {
	case !c.begun:
		return it.fromEnd(turned)
	case c.turned != turned:
		c.back()
	case !c.valid:
		return false
	case c.all:
		c.advance()
	case !c.reverse:
		c.skipKey()
	}
	return c.find()
}

// face sets the direction of the iteration.
func (c *timedCore) face(turned bool) {
	if c.turned != turned {
		c.turned, c.reverse = turned, !c.reverse
	}
}

// back changes the direction, and moves versions to where find goes on.
func (c *timedCore) back() {
	c.face(!c.turned)
	switch {
	case c.versions.Err() != nil:
	case c.all:
		c.advance()
	case c.valid:
		c.leaveKey()
	default:
		c.versions.move(nil, c.turned, false)
	}
}

// advance moves versions in the direction of the iteration.
func (c *timedCore) advance() bool { return c.versions.step(c.turned) }

// ready reports whether the iterator can move.
func (it TimedIterator) ready() bool { return it.c != nil && it.c.err == nil }

// find moves to the next entry to show, from where versions is.
func (c *timedCore) find() bool {
	c.begun, c.valid = true, false
	for !c.valid && c.err == nil {
		e := c.entry()
		switch {
		case e == nil:
			return false
		case !stamp.Ended(e.Key[min(int(c.t.tx.skip(e.Key)), len(e.Key)):]):
			c.err = base.Corrupt(-1, "key with a timestamp", fmt.Sprintf("%.40x", e.Key), "an encoded key")
		case c.all:
			c.valid = c.includes(e)
			if !c.valid {
				c.advance()
			}
		case c.reverse:
			c.findBackward(e)
		default:
			c.findForward(e)
		}
	}
	return c.valid
}

// entry returns the entry that versions is at, or nil.
func (c *timedCore) entry() *base.Entry {
	if core := c.versions.at(); core != nil {
		return core.visible.Entry
	}
	return nil
}

// next moves versions, and returns its entry if that is a version of the key of group.
func (c *timedCore) next() *base.Entry {
	if c.advance() {
		if e := c.entry(); e != nil && bytes.Equal(stamp.KeyOf(e.Key), c.group) {
			return e
		}
	}
	return nil
}

// includes reports whether the timestamp of a version is not after that of the reads.
func (c *timedCore) includes(e *base.Entry) bool {
	at, _ := stamp.Of(e.Key)
	return at <= c.t.at
}

// findForward shows the key of e, which versions is at, or moves to the next one.
func (c *timedCore) findForward(e *base.Entry) {
	c.group = append(c.group[:0], stamp.KeyOf(e.Key)...)
	for range stepsMax {
		if c.includes(e) {
			if c.valid = c.t.tx.lives(e); !c.valid {
				c.skipKey()
			}
			return
		}
		if e = c.next(); e == nil {
			return
		}
	}
	c.seek = stamp.AppendTimestamp(append(c.seek[:0], c.userGroup()...), c.t.at)
	c.versions.move(c.seek, c.turned, false)
}

// userGroup returns group without the prefix of the keyspace.
func (c *timedCore) userGroup() []byte { return c.group[c.t.tx.skip(c.group):] }

// skipKey moves versions to the next key in the direction of iteration. It is at a
// version of the key of group.
func (c *timedCore) skipKey() {
	for range stepsMax {
		if c.next() == nil {
			return
		}
	}
	c.leaveKey()
}

// leaveKey is skipKey by a search, from anywhere.
func (c *timedCore) leaveKey() {
	c.seek = append(c.seek[:0], c.userGroup()...)
	if !c.reverse {
		c.seek[len(c.seek)-1]++ // as AppendAfter
	}
	c.versions.move(c.seek, c.turned, false)
}

// findBackward shows the key of e, which versions is at, if it has a value. It moves
// versions to the key before it.
func (c *timedCore) findBackward(e *base.Entry) {
	c.group = append(c.group[:0], stamp.KeyOf(e.Key)...)
	found := false
	for n := 0; n < stepsMax || c.wrote(); n++ {
		if !c.includes(e) {
			c.skipKey()
			c.showBehind(found)
			return
		}
		found, c.behind = true, c.versions.Item()
		c.stored = append(c.stored[:0], c.behind.entry.Key...)
		c.behind.entry.Key = c.stored
		if e = c.next(); e == nil {
			c.showBehind(true)
			return
		}
	}
	// The key has many versions. A search finds the right one.
	c.seek = stamp.AppendTimestamp(append(c.seek[:0], c.userGroup()...), 0)
	key, _, _ := stamp.Decode(c.seek, c.key)
	item, err := c.t.lookup(key)
	c.leaveKey()
	switch err {
	case nil:
		item.keysOnly = c.versions.c.keysOnly
		c.behind, c.valid = item, true
	case base.ErrNotFound:
	default:
		c.err = err
	}
}

// showBehind shows the version behind, if one was found and has a value.
func (c *timedCore) showBehind(found bool) {
	if c.valid = found && c.versions.Err() == nil && c.t.tx.lives(&c.behind.entry); c.valid {
		c.behind.entry.Meta, c.behind.timed = plainMeta(c.behind.entry.Meta), true
	}
}

// wrote reports whether the transaction has written since First, Last or Seek. A search would
// find such writes, which the iterator does not show.
func (c *timedCore) wrote() bool {
	w := c.t.tx.s.writes
	return w != nil && w.Pending.Len() != c.versions.c.own
}

// ahead reports whether the current key is that of group, and versions, which goes backward,
// has passed it.
func (c *timedCore) ahead() bool { return c.valid && !c.all }

// Valid is stoat.TimedIterator.Valid.
func (it TimedIterator) Valid() bool { return it.c != nil && it.c.shows() }

// shows reports whether there is a current entry.
func (c *timedCore) shows() bool {
	switch {
	case !c.valid || c.err != nil:
		return false
	case c.reverse && !c.all:
		return c.versions.Err() == nil
	}
	return c.versions.at() != nil
}

// encoded returns the current key without the prefix of the keyspace, or nil.
func (c *timedCore) encoded() []byte {
	switch {
	case !c.shows():
		return nil
	case c.reverse && !c.all:
		return c.behind.entry.Key[c.behind.skip:]
	}
	return c.versions.Key()
}

// Key is stoat.TimedIterator.Key.
func (it TimedIterator) Key() []byte {
	if it.c == nil {
		return nil
	}
	c := it.c
	encoded := c.encoded()
	if cap(c.key) < len(encoded) {
		c.key = make([]byte, 0, 2*len(encoded))
	}
	key, _, _ := stamp.Decode(encoded, c.key)
	return key
}

// Value is stoat.TimedIterator.Value.
func (it TimedIterator) Value() (value []byte) {
	if !it.Valid() {
		return nil
	}
	c := it.c
	if !c.reverse || c.all {
		if e := c.entry(); e == nil || e.Meta.Kind == base.KindStampDelete {
			return nil
		}
		return c.versions.Value()
	}
	if value, c.err = c.behind.Value(); c.err != nil {
		c.valid = false
	}
	return value
}

// Item is stoat.TimedIterator.Item.
func (it TimedIterator) Item() Item {
	switch {
	case !it.Valid():
		return Item{}
	case it.c.reverse && !it.c.all:
		return it.c.behind
	}
	item := it.c.versions.Item()
	item.entry.Meta, item.timed = plainMeta(item.entry.Meta), true
	return item
}

// Err is stoat.TimedIterator.Err.
func (it TimedIterator) Err() error {
	switch {
	case it.c == nil:
		return base.ErrTxnDone
	case it.c.err != nil:
		return it.c.err
	}
	return it.c.versions.Err()
}

// Close is stoat.TimedIterator.Close.
func (it TimedIterator) Close() error {
	if it.c == nil {
		return base.ErrTxnDone
	}
	err := it.c.versions.Close()
	if it.c.err != nil {
		return it.c.err
	}
	return err
}

// Loop is stoat.TimedTxn.Loop.
func (t TimedTxn) Loop(o IterOptions) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		it := t.Iterator(o)
		t.tx.beginLoop()
		defer func() { t.tx.endLoop(it.Close()) }()
		for it.Next() {
			if value := it.Value(); !it.Valid() || !yield(it.Key(), value) {
				return
			}
		}
	}
}
