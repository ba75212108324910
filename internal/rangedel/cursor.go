package rangedel

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
)

// A Cursor tells an iterator what deletions cover the key it is at, and how
// far in its direction that holds, so that it asks once for each fragment and
// not for each key. Keys may be asked for in any order; those that come in
// the cursor's direction are cheap. Memory of an earlier use is kept. It is
// used by one goroutine at a time.
type Cursor struct {
	inputs  []input
	reverse bool
}

// An input is one list and the piece of the key space that was found in it
// last: [from, to), where nil is no bound, is covered by seq, or not if that
// is 0.
type input struct {
	list     *List
	at, as   base.SeqNum
	fragment int // the last one that does not begin after the piece
	from, to []byte
	seq      base.SeqNum
	known    bool
}

// Init empties the cursor for an iteration in one direction.
func (c *Cursor) Init(reverse bool) {
	clear(c.inputs)
	c.inputs, c.reverse = c.inputs[:0], reverse
}

// Add adds a list, in which deletions up to at count. When as is not 0, the
// cursor answers as instead of their numbers: a transaction's own deletions
// are newer than all that it sees, whatever numbers tell them apart.
func (c *Cursor) Add(l *List, at, as base.SeqNum) {
	if _, oldest := l.Seqs(); l.Len() > 0 && oldest <= at {
		c.inputs = append(c.inputs, input{list: l, at: at, as: as})
	}
}

// Empty reports whether no list was added that has anything to say.
func (c *Cursor) Empty() bool { return len(c.inputs) == 0 }

// At returns the newest deletion that covers key, or 0, and how far that
// holds: forward for all keys from key to until, exclusive; backward for all
// keys down to until, inclusive. A nil until is the end of the direction.
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

// holds reports whether key lies in the piece that was found last.
func (in *input) holds(key []byte) bool {
	return in.known && (in.from == nil || bytes.Compare(key, in.from) >= 0) &&
		(in.to == nil || bytes.Compare(key, in.to) < 0)
}

// find moves to the piece that key lies in.
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

// near returns the last fragment that does not begin after key. It looks at
// the neighbours of the last answer before it searches.
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
