package stoat

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
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
		lo = base.FirstKey
	}
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return nil // and never a hi of no bytes, which has a meaning below
	}
	m := base.Meta{Kind: base.KindDeleteRange}
	return tx.state.writes.Pending.Set(lo, hi, base.Hash(lo, tx.db.hashSeed), m, 0)
}

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
	for _, t := range c.view.Memtables {
		t.AddDeletions(&c.deletions, at)
	}
	c.own = 0
	if w := c.tx.state.writes; w != nil {
		c.own = w.Pending.Len()
		w.Pending.AddDeletions(&c.deletions, at)
	}
	if err := c.view.Tree.AddDeletions(&c.deletions, at); err != nil {
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
		if t != c.view.Memtables[0] {
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
