package stoat

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// DeleteRange removes the values of all keys from lo, inclusive, to hi,
// exclusive. A nil lo is the first key, a nil hi has no end. It takes the same
// short time however many keys there are, and reads none of them: what others
// write there meanwhile is no conflict, and whoever commits later prevails. For
// those who have read, it is a write of every key in the range, there or not.
//
// What the transaction itself has set in the range before is gone, what it
// sets afterwards stays. Iterators that are open go on as if nothing had
// happened until they are positioned anew.
func (tx *Txn) DeleteRange(lo, hi []byte) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	for _, bound := range [][]byte{lo, hi} {
		if len(bound) > MaxKeySize {
			return checkKey(bound)
		}
	}
	if len(lo) == 0 {
		lo = firstKey
	}
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return nil // and never a hi of no bytes, which has a meaning below
	}
	m := base.Meta{Kind: base.KindDeleteRange}
	return tx.state.writes.pending.Set(lo, hi, base.Hash(lo, tx.db.hashSeed), m, 0)
}

var firstKey = []byte{0}

// checkWrite reports why the transaction cannot write.
func (tx *Txn) checkWrite() error {
	if err := tx.check(); err != nil {
		return err
	}
	if tx.state.writes == nil {
		return ErrReadOnly
	}
	return nil
}

// cover tells the iterator to be what range deletions hide. Where there are
// none it costs a look at each structure, and nothing for each key.
func (c *iteratorCore) cover() error {
	c.deletions.Init(c.reverse)
	at := c.tx.seq
	for _, t := range c.view.tables {
		t.AddDeletions(&c.deletions, at)
	}
	c.own = 0
	if w := c.tx.state.writes; w != nil {
		c.own = w.pending.Len()
		w.pending.AddDeletions(&c.deletions, at)
	}
	if err := c.view.tree.AddDeletions(&c.deletions, at); err != nil {
		return err
	}
	if c.snapshot.Cover = nil; !c.deletions.Empty() {
		c.snapshot.Cover = &c.deletions
		c.setAges()
	}
	return nil
}

// setAges lets structures that are older than a range deletion be passed over
// where it covers them. The memtable that takes the writes grows newer.
func (c *iteratorCore) setAges() {
	for i, t := range c.memtables {
		if t != c.view.tables[0] {
			c.inputs[i].MaxSeq = t.LastSeq()
		}
	}
	for i := range c.levels.Len() {
		c.inputs[len(c.sources)+i].MaxSeq = c.levels.NewestSeq(i)
	}
}

// coverAnew is cover for an iterator that is about to be positioned after its
// transaction has deleted ranges.
func (c *iteratorCore) coverAnew() error {
	if err := c.cover(); err != nil {
		return err
	}
	c.begin()
	return nil
}

// withoutHidden returns the tables of a merge without those in which range
// deletions of the merge hide everything from everybody: none of it would stay,
// and so it need not be read. oldest is the oldest snapshot.
func withoutHidden(inputs [manifest.Levels][]*manifest.Table, by *rangedel.List, oldest base.SeqNum) (rest [manifest.Levels][]*manifest.Table) {
	var c rangedel.Cursor
	c.Init(false)
	c.Add(by, oldest, 0)
	for level, tables := range inputs {
		for _, t := range tables {
			if c.Empty() || !hidden(&c, t) {
				rest[level] = append(rest[level], t)
			}
		}
	}
	return rest
}

// hidden reports whether deletions newer than all of t cover all of it. Its own
// range deletions are then of no use to anybody either.
func hidden(by iter.Cover, t *manifest.Table) bool {
	key := t.Smallest
	for {
		seq, until := by.At(key)
		if seq <= t.LargestSeq {
			return false
		}
		invariant.Check(until != nil, "a range deletion of %q without an end", key)
		if order := bytes.Compare(until, t.Largest); order > 0 || order == 0 && t.LargestExclusive {
			return true
		}
		key = until
	}
}
