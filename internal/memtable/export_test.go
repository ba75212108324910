package memtable

import "github.com/stoatdb/stoat/internal/base"

// Keys returns the number of different keys that have versions. Keys that a
// pending range deletion covers count until LiveLen is called.
func (t *Table) Keys() int { return int(t.keys) }

// Seq returns the sequence number of an entry that Newer showed.
func (t *Table) Seq(r Ref) base.SeqNum {
	e := t.arena.at(r)
	return t.seq(e, e.word())
}
