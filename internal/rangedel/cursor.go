package rangedel

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
)

// A Cursor tells an iterator which deletions cover the current key, and how far
// in its direction the answer holds. So the iterator asks once for each fragment
// rather than for each key. Keys may come in any order; keys in the cursor's
// direction are cheap. Init reuses memory of an earlier use. One goroutine uses
// a Cursor at a time.
type Cursor struct {
	inputs  []input
	reverse bool
}

// An input is one list and the range of keys that the last search found in it.
// seq covers [from, to), where nil is no bound; 0 means that no deletion does.
type input struct {
	list     *List
	at, as   base.SeqNum
	fragment int // last fragment that does not begin after the range
	from, to []byte
	seq      base.SeqNum
	known    bool
}

// Init empties the cursor for an iteration in one direction.
func (c *Cursor) Init(reverse bool) {
	clear(c.inputs)
	c.inputs, c.reverse = c.inputs[:0], reverse
}

// Turn changes the direction of the iteration.
func (c *Cursor) Turn() { c.reverse = !c.reverse }

// Add adds a list. Deletions above at do not count. If as is not 0, the cursor returns as
// instead of their numbers. A transaction's own deletions are newer than all that it sees,
// although their marks are small.
func (c *Cursor) Add(l *List, at, as base.SeqNum) {
	if _, oldest := l.Seqs(); l.Len() > 0 && oldest <= at {
		c.inputs = append(c.inputs, input{list: l, at: at, as: as})
	}
}

// Empty reports whether no added list has deletions that count.
func (c *Cursor) Empty() bool { return len(c.inputs) == 0 }

// At returns the newest deletion that covers key, or 0. The answer holds forward
// for all keys from key to until, exclusive, and backward for all keys down to
// until, inclusive. A nil until is the end of the direction.
func (c *Cursor) At(key []byte) (seq base.SeqNum, until []byte) {
	for i := range c.inputs {
		in := &c.inputs[i]
		if !in.holds(key) {
			in.find(key)
		}
		seq = max(seq, in.seq)
		switch {
		case c.reverse:
			if in.from != nil && (until == nil || bytes.Compare(in.from, until) > 0) {
				until = in.from
			}
		case in.to != nil && (until == nil || bytes.Compare(in.to, until) < 0):
			until = in.to
		}
	}
	return seq, until
}

// holds reports whether key lies in the range that the last search found.
func (in *input) holds(key []byte) bool {
	return in.known && (in.from == nil || bytes.Compare(key, in.from) >= 0) &&
		(in.to == nil || bytes.Compare(key, in.to) < 0)
}

// find moves to the range that contains key.
func (in *input) find(key []byte) {
	l := in.list
	i := in.near(key)
	in.fragment, in.known, in.seq = i, true, 0
	in.from, in.to = nil, nil
	switch {
	case i >= 0 && bytes.Compare(key, l.his[i]) < 0:
		in.from, in.to = l.los[i], l.his[i]
		if in.seq = l.newestAt(i, in.at); in.seq != 0 && in.as != 0 {
			in.seq = in.as
		}
		return
	case i >= 0:
		in.from = l.his[i]
	}
	if i+1 < len(l.los) {
		in.to = l.los[i+1]
	}
}

// near returns the last fragment that does not begin after key. It checks the
// neighbours of the last answer before it searches.
func (in *input) near(key []byte) int {
	l := in.list
	if in.known {
		for i := max(in.fragment-1, -1); i <= in.fragment+1; i++ {
			begun := i < 0 || i < len(l.los) && bytes.Compare(l.los[i], key) <= 0
			if begun && (i+1 >= len(l.los) || bytes.Compare(l.los[i+1], key) > 0) {
				return i
			}
		}
	}
	return l.search(key)
}
