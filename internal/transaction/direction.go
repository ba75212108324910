package transaction

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// An iterator reads its sources in one direction. To change it, the iterator seeks. A turn
// costs about as much as Seek, and each further move in the new direction as much as
// without the turn. A turn makes no later writes of the transaction visible.

// seek positions the iterator as iter.Visible.Seek does, and begins a range.
func (c *core) seek(key []byte) bool {
	ok := c.visible.Seek(key)
	c.beginRange(key)
	c.beginRound()
	c.showKey()
	return ok
}

// turn changes the direction. The iterator has no position then.
func (c *core) turn() {
	c.reverse, c.turned = !c.reverse, !c.turned
	c.initLevels(c.snapshot.Since)
	for i := range c.sources {
		c.sources[i].Turn()
	}
	c.deletions.Turn()
	c.begin()
}

// back turns and moves to the next entry in the new direction. From an end it moves to
// the entry at that end.
func (c *core) back() bool {
	if !mutant.On(mutant.SkipTurnedRange) {
		c.noteRange()
	}
	if !c.visible.Valid() {
		c.turn()
		return c.seek(nil)
	}
	at, all := c.visible.Entry.Seq, c.snapshot.AllVersions
	c.seekKey = append(c.seekKey[:0], c.visible.Entry.Key...)
	n := len(c.seekKey)
	// Of other iterators, the seek leaves out the current entry.
	if c.reverse != all {
		c.seekKey = append(c.seekKey, 0) // the first key after it
	}
	c.turn()
	ok := c.seek(c.seekKey)
	for ok && all && c.within(c.seekKey[:n], at) {
		ok = c.visible.Next()
		c.beginRound()
		c.showKey()
	}
	return ok
}

// within reports whether the current entry is a version of key that comes, in the
// direction of the iteration, not after the version at.
func (c *core) within(key []byte, at base.SeqNum) bool {
	e := c.visible.Entry
	if !bytes.Equal(e.Key, key) {
		return false
	}
	if c.reverse {
		return e.Seq <= at
	}
	return e.Seq >= at
}
