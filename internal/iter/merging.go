package iter

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// PendingSeq is the sequence number under which a transaction's own writes
// appear to it: newer than everything that is committed.
const PendingSeq = base.SeqNumMax + 1

// firstWant is how many entries the first Fill after a seek asks for; it
// doubles up to BatchSize, so that a short range decodes little too much.
const firstWant = 4

// An Input is one source and what merging has to know of it.
type Input struct {
	Source Source
	// Pending marks the transaction's own writes, whose entries get
	// PendingSeq.
	Pending bool
}

// bounds are the limits of an iteration: Lower inclusive, Upper exclusive,
// nil for none.
type bounds struct {
	lower, upper []byte
}

// A cursor is a source with the batch it is at.
type cursor struct {
	source  Source
	pending bool
	at      int
	ended   bool // the bound was met: do not fill again
	batch   Batch
}

func (c *cursor) key() []byte      { return c.batch.Keys[c.at] }
func (c *cursor) seq() base.SeqNum { return c.batch.Seqs[c.at] }
func (c *cursor) seek(key []byte) {
	c.source.Seek(key)
	c.batch.Want, c.batch.N, c.ended = firstWant, 0, false
}
func (c *cursor) exhausted() bool   { return c.at >= c.batch.N }
func (c *cursor) entry() base.Entry { return c.batch.entry(c.at) }

func (b *Batch) entry(i int) base.Entry {
	return base.Entry{Key: b.Keys[i], Value: b.Vals[i], Seq: b.Seqs[i], Meta: b.Metas[i]}
}

// fill loads the next batch, cut at the bound of the direction, so that no
// key has to be compared with a bound one by one.
func (c *cursor) fill(reverse bool, lim bounds) error {
	c.at = 0
	if c.ended {
		c.batch.N = 0
		return nil
	}
	if err := c.source.Fill(&c.batch); err != nil {
		c.batch.N, c.ended = 0, true
		return err
	}
	if invariant.Enabled {
		c.checkOrder(reverse)
	}
	c.batch.Want = min(2*c.batch.Want, BatchSize)
	if c.pending {
		for i := range c.batch.N {
			c.batch.Seqs[i] = PendingSeq
		}
	}
	c.cut(reverse, lim)
	return nil
}

// cut drops the entries of the batch that lie beyond the bound.
func (c *cursor) cut(reverse bool, lim bounds) {
	n := c.batch.N
	if reverse {
		for lim.lower != nil && n > 0 && bytes.Compare(c.batch.Keys[n-1], lim.lower) < 0 {
			n--
		}
	} else {
		for lim.upper != nil && n > 0 && bytes.Compare(c.batch.Keys[n-1], lim.upper) >= 0 {
			n--
		}
	}
	if n < c.batch.N {
		c.batch.N, c.ended = n, true
	}
}

func (c *cursor) checkOrder(reverse bool) {
	for i := 1; i < c.batch.N; i++ {
		order := bytes.Compare(c.batch.Keys[i-1], c.batch.Keys[i])
		if reverse {
			order = -order
		}
		invariant.Check(order <= 0, "source out of order: %q before %q", c.batch.Keys[i-1], c.batch.Keys[i])
		if order == 0 {
			newestFirst := c.batch.Seqs[i-1] > c.batch.Seqs[i]
			invariant.Check(newestFirst != reverse, "versions of %q out of order: %d, %d",
				c.batch.Keys[i], c.batch.Seqs[i-1], c.batch.Seqs[i])
		}
	}
}

// Merging interleaves sources into one order: forward by ascending key and
// descending sequence number, backward the reverse.
//
// The cursors are kept sorted by the entry they are at. Sources of one
// database are few and long runs come from one of them, so moving the first
// cursor to its new place usually takes one comparison.
type Merging struct {
	cursors []cursor
	order   []*cursor // those not exhausted, the next entry first
	reverse bool
	lim     bounds
	err     error
}

// Init makes m read the inputs, which is before the first entry. Memory of an
// earlier use is kept.
func (m *Merging) Init(inputs []Input, reverse bool, lower, upper []byte) {
	if cap(m.cursors) < len(inputs) {
		m.cursors = make([]cursor, len(inputs))
		m.order = make([]*cursor, 0, len(inputs))
	}
	m.cursors = m.cursors[:len(inputs)]
	for i, in := range inputs {
		c := &m.cursors[i]
		c.source, c.pending, c.batch.N, c.at = in.Source, in.Pending, 0, 0
	}
	m.order, m.reverse, m.lim, m.err = m.order[:0], reverse, bounds{lower, upper}, nil
}

// seek positions every source as Source.Seek does.
func (m *Merging) seek(key []byte) {
	m.order, m.err = m.order[:0], nil
	for i := range m.cursors {
		c := &m.cursors[i]
		c.seek(key)
		if err := c.fill(m.reverse, m.lim); err != nil {
			m.fail(err)
			return
		}
		if !c.exhausted() {
			m.order = append(m.order, c)
			m.settle(len(m.order)-1, true)
		}
	}
}

// top returns the cursor at the next entry, or nil at the end.
func (m *Merging) top() *cursor {
	if len(m.order) == 0 {
		return nil
	}
	return m.order[0]
}

// advance moves the top cursor c to its next entry and restores the order.
func (m *Merging) advance(c *cursor) {
	if c.at++; c.at < c.batch.N {
		if len(m.order) > 1 {
			m.settle(0, false)
		}
		return
	}
	m.refill()
}

// refill loads the next batch of the top cursor, whose last entry has been
// used, and puts the cursor in its place.
func (m *Merging) refill() {
	c := m.order[0]
	if err := c.fill(m.reverse, m.lim); err != nil {
		m.fail(err)
		return
	}
	if c.exhausted() {
		m.order = m.order[:copy(m.order, m.order[1:])]
		return
	}
	m.settle(0, false)
}

// settle moves the cursor at i to its place: towards the front or the back.
func (m *Merging) settle(i int, front bool) {
	c := m.order[i]
	if front {
		for ; i > 0 && m.before(c, m.order[i-1]); i-- {
			m.order[i] = m.order[i-1]
		}
	} else {
		for ; i+1 < len(m.order) && m.before(m.order[i+1], c); i++ {
			m.order[i] = m.order[i+1]
		}
	}
	m.order[i] = c
}

func (m *Merging) before(a, b *cursor) bool {
	order := bytes.Compare(a.key(), b.key())
	if order == 0 {
		return (a.seq() > b.seq()) != m.reverse
	}
	return (order < 0) != m.reverse
}

func (m *Merging) fail(err error) {
	m.err, m.order = err, m.order[:0]
}
