package iter

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// PendingSeq is the sequence number of a transaction's own writes in its
// iterators. It is newer than every committed one.
const PendingSeq = base.SeqNumMax + 1

// firstWant is how many entries the first Fill after a seek asks for, as long as the
// length of earlier iterations is unknown. Otherwise the first Fills ask for as many as
// earlier iterations read; with manySources or more, for half of that. Then the number
// doubles with each Fill up to BatchSize. So a short range decodes little that it does not
// need.
const (
	firstWant   = 4
	manySources = 4
)

// An Input is one source, with what Merging must know about it.
type Input struct {
	Source Source
	// Pending marks the transaction's own writes. Their entries get PendingSeq.
	Pending bool
	// MaxSeq is the newest sequence number in the source, or 0 if unknown.
	// Merging skips the part of a source that a newer range tombstone covers.
	MaxSeq base.SeqNum
	// Grouped says that the group positions the source, see Visible.Together.
	Grouped bool
}

// bounds are the limits of an iteration: lower inclusive, upper exclusive, nil
// for none.
type bounds struct {
	lower, upper []byte
}

// A cursor is a source and its current batch.
type cursor struct {
	source  Source
	maxSeq  base.SeqNum
	pending bool
	grouped bool
	ended   bool // the source reached the bound: do not fill again
	at      int  // index of the next entry in the batch
	used    int  // entries of the batch that were ever in use, see clear
	expect  int  // how many more entries the reader will probably read
	batch   Batch
	// heads order the entries of the batch by 8 bytes of their keys. These bytes
	// follow the prefix that all keys in the batches of all cursors share.
	// Backward they are complemented. With one cursor left they are not set.
	heads [BatchSize]uint64
}

func (c *cursor) key() []byte     { return c.batch.Entries[c.at].Key }
func (c *cursor) lastKey() []byte { return c.batch.Entries[c.batch.N-1].Key }
func (c *cursor) exhausted() bool { return c.at >= c.batch.N }

// seek positions the source, unless its group already did. The reader stops at bound.
func (c *cursor) seek(key, bound []byte, want int) {
	if !c.grouped {
		c.source.Seek(key)
	}
	c.batch.Bound = bound
	c.expect, c.batch.Want, c.batch.N, c.ended = want, min(want, BatchSize), 0, false
}

// fill loads the next batch and cuts it at the bound, so that no other code
// compares keys with bounds.
func (c *cursor) fill(reverse bool, lim bounds) error {
	c.at = 0
	if c.ended {
		c.batch.N = 0
		return nil
	}
	c.batch.Plain = false
	if err := c.source.Fill(&c.batch); err != nil {
		c.batch.N, c.ended, c.used = 0, true, BatchSize
		return err
	}
	if invariant.Enabled {
		c.checkOrder(reverse)
	}
	c.used = max(c.used, c.batch.N)
	if c.expect -= c.batch.N; c.expect > 0 {
		c.batch.Want = min(c.expect, BatchSize)
	} else {
		c.batch.Want = min(2*c.batch.Want, BatchSize)
	}
	if c.pending {
		for i := range c.batch.N {
			c.batch.Entries[i].Seq = PendingSeq
		}
	}
	c.cut(reverse, lim)
	return nil
}

// cut drops the entries of the batch that lie beyond the bound.
func (c *cursor) cut(reverse bool, lim bounds) {
	n := c.batch.N
	if reverse {
		for lim.lower != nil && n > 0 && bytes.Compare(c.batch.Entries[n-1].Key, lim.lower) < 0 {
			n--
		}
	} else {
		for lim.upper != nil && n > 0 && bytes.Compare(c.batch.Entries[n-1].Key, lim.upper) >= 0 {
			n--
		}
	}
	if n < c.batch.N {
		c.batch.N, c.ended = n, true
	}
}

// checkOrder passes arguments to invariant.Check only on failure. Otherwise
// these arguments would be most of the garbage of all tests.
func (c *cursor) checkOrder(reverse bool) {
	if c.batch.Plain && !c.batch.IsPlain() {
		invariant.Check(false, "a source called a batch plain that is not, from %q on", c.batch.Entries[0].Key)
	}
	for i := range c.batch.N {
		invariant.Check(len(c.batch.Entries[i].Key) > 0, "a source returned an empty key")
		if c.maxSeq > 0 && c.batch.Entries[i].Seq > c.maxSeq {
			invariant.Check(false, "a source with MaxSeq %d returned %q at %d", c.maxSeq, c.batch.Entries[i].Key, c.batch.Entries[i].Seq)
		}
	}
	for i := 1; i < c.batch.N; i++ {
		order := bytes.Compare(c.batch.Entries[i-1].Key, c.batch.Entries[i].Key)
		if reverse {
			order = -order
		}
		switch newestFirst := c.batch.Entries[i-1].Seq > c.batch.Entries[i].Seq; {
		case order > 0:
			invariant.Check(false, "source out of order: %q before %q", c.batch.Entries[i-1].Key, c.batch.Entries[i].Key)
		case order == 0 && newestFirst == reverse:
			invariant.Check(false, "versions of %q out of order: %d, %d",
				c.batch.Entries[i].Key, c.batch.Entries[i-1].Seq, c.batch.Entries[i].Seq)
		}
	}
}

// clear drops the references to the source and its entries. It clears only the
// used part of the batch, because a batch is long and most iterations are short.
func (c *cursor) clear() {
	clear(c.batch.Entries[:c.used])
	c.source, c.used, c.batch.N, c.batch.Bound = nil, 0, 0, nil
}

// shares reports whether all keys of the batch begin with prefix. The keys are
// sorted, so it checks only the first and the last.
func (c *cursor) shares(prefix []byte) bool {
	return bytes.HasPrefix(c.key(), prefix) && bytes.HasPrefix(c.lastKey(), prefix)
}

// setHeads sets the heads of the entries from the next one on. shared is the
// length of the prefix that the keys share with those of all other cursors.
func (c *cursor) setHeads(shared int, flip uint64) {
	for i := c.at; i < c.batch.N; i++ {
		c.heads[i] = base.Head(c.batch.Entries[i].Key[shared:]) ^ flip
	}
}

// head returns the head of the next entry, or lastHead at the end.
func (c *cursor) head() uint64 {
	if c.exhausted() {
		return lastHead
	}
	return c.heads[c.at]
}

// alike reports whether all remaining keys of the batch have the same head.
func (c *cursor) alike() bool {
	return c.batch.N > c.at+1 && c.heads[c.at] == c.heads[c.batch.N-1]
}
