package stoat

import (
	"bytes"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
)

// An iteratorCore is the state of an open iterator. Later iterators reuse it.
type iteratorCore struct {
	visible   iter.Visible
	memtables []*memtable.Table // the memtables of the snapshot
	sources   []memtable.Iter   // the memtables, and then the pending writes
	levels    tree.Levels
	inputs    []iter.Input
	// deletions has the range tombstones that the snapshot and the transaction see.
	// Those of the transaction are among its first own pending writes.
	deletions rangedel.Cursor
	own       int
	snapshot  iter.Snapshot

	// ahead has the values of one round of visible, from entry number aheadFrom on.
	ahead      tree.Ahead
	aheadRound uint64
	aheadFrom  int
	prefetch   int

	tx   *Txn
	view *state.View // of tx
	// The end of the transaction closes the iterator. So only the end of the
	// database and a context can stop it. A free transaction has no context.
	closed *atomic.Bool
	free   bool

	keysOnly     bool
	reverse      bool
	lower, upper []byte // effective bounds, slices of bounds
	bounds       []byte

	// For a read-write transaction: whether a range is being read, and where it
	// begins in the direction of iteration. A nil start is the very end.
	reading  bool
	start    []byte // nil, or a slice of startBuf
	startBuf []byte

	lentKey []byte // the copy of the key that the caller has, with invariants only
	seekKey []byte
}

// open is init with a guard against faults.
func (c *iteratorCore) open(tx *Txn, o *IterOptions) (err error) {
	defer fault.Enter().Leave(&err)
	return c.init(tx, o)
}

func (c *iteratorCore) init(tx *Txn, o *IterOptions) error {
	c.tx, c.keysOnly, c.reverse, c.reading = tx, o.KeysOnly, o.Reverse, false
	c.closed, c.free = tx.db.store.ClosedFlag(), tx.state.ctx == nil
	if c.prefetch = o.Prefetch; c.prefetch == 0 {
		c.prefetch = prefetchDefault
	}
	if c.view = tx.view; c.view == nil {
		return ErrTxnDone // the transaction ended just now, on another goroutine
	}
	c.ahead.Init(c.view.Tree)
	c.setBounds(o)
	c.memtables = c.view.Memtables
	if c.memtables[0].Len() == 0 {
		c.memtables = c.memtables[1:] // the snapshot does not see later writes
	}
	since := base.SeqNum(o.Since)
	for n := len(c.memtables); n > 0 && c.memtables[n-1].LastSeq() <= since; n-- {
		c.memtables = c.memtables[:n-1]
	}
	c.levels.Init(c.view.Tree, since, table.IterOptions{Reverse: c.reverse, KeysOnly: c.keysOnly, Arena: &tx.state.decoded})
	n, depth := len(c.memtables), c.levels.Len()
	if tx.state.writes != nil {
		n++
	}
	c.sources, c.inputs = resize(c.sources, n), resize(c.inputs, n+depth)
	for i, t := range c.memtables {
		c.sources[i].Init(t, c.reverse)
		c.inputs[i] = iter.Input{Source: &c.sources[i]}
	}
	if tx.state.writes != nil {
		c.sources[n-1].Init(tx.state.writes.Pending, c.reverse)
		c.inputs[n-1] = iter.Input{Source: &c.sources[n-1], Pending: true}
	}
	for i := range depth {
		c.inputs[n+i] = iter.Input{Source: c.levels.Source(i), Grouped: true}
	}
	c.snapshot = iter.Snapshot{
		At: tx.seq, Since: since, Clock: c, AllVersions: o.AllVersions, Values: !o.KeysOnly,
	}
	if !c.free {
		c.snapshot.Ends = c
	}
	if err := c.cover(); err != nil {
		return err
	}
	c.begin()
	return nil
}

// begin merges the inputs into what the snapshot sees, at no position.
func (c *iteratorCore) begin() {
	c.visible.Init(c.inputs, c.reverse, c.lower, c.upper, c.snapshot)
	c.visible.Together(&c.levels)
}

// resize returns s with n elements of any content.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// Ended returns why the iteration cannot go on, or nil. It implements
// iter.Snapshot.Ends.
func (c *iteratorCore) Ended() error { return c.tx.check() }

// Expired reports whether an entry has expired at the time of the transaction. It
// implements iter.Snapshot.Clock.
func (c *iteratorCore) Expired(at uint64, own bool) bool { return c.tx.expired(at, own) }

// setBounds combines the bounds and the prefix of the options into one pair of
// bounds, in memory of its own.
func (c *iteratorCore) setBounds(o *IterOptions) {
	lower, upper := o.Lower, o.Upper
	if c.bounds == nil {
		c.bounds = make([]byte, 0, 64) // so that an empty bound is not nil
	}
	c.bounds = c.bounds[:0]
	if len(o.Prefix) > 0 {
		if bytes.Compare(o.Prefix, lower) > 0 {
			lower = o.Prefix
		}
		c.bounds = append(c.bounds, o.Prefix...)
		if end := prefixEnd(c.bounds); end != nil && (upper == nil || bytes.Compare(end, upper) < 0) {
			upper = end
		}
	}
	n := len(c.bounds)
	c.bounds = append(append(c.bounds, lower...), upper...)
	c.lower, c.upper = nil, nil
	if lower != nil {
		c.lower = c.bounds[n : n+len(lower)]
	}
	if upper != nil {
		c.upper = c.bounds[n+len(lower):]
	}
}

// prefixEnd turns a prefix, in place, into the first key after all keys that start
// with it. It returns nil if there is no such key.
func prefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i]++; prefix[i] != 0 {
			return prefix[:i+1]
		}
	}
	return nil
}

// cover collects the range tombstones that hide keys from the iterator. Without
// range tombstones it costs one look at each structure, and nothing for each key.
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

// setAges tells the newest sequence number of each input. The iterator skips an
// input that is older than a range tombstone where the tombstone covers it. The
// active memtable gets no number, because it still takes writes.
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

// coverAnew is cover before a new positioning, after the transaction has deleted
// ranges.
func (c *iteratorCore) coverAnew() error {
	if err := c.cover(); err != nil {
		return err
	}
	c.begin()
	return nil
}

// clear releases everything that belongs to the transaction.
func (c *iteratorCore) clear() {
	invariant.Mangle(c.lentKey)
	c.visible.Clear()
	c.ahead.Clear()
	clear(c.inputs)
	for i := range c.sources {
		c.sources[i].Close()
	}
	c.levels.Close()
	c.deletions.Init(false)
	c.snapshot = iter.Snapshot{}
	c.tx, c.view, c.memtables, c.lower, c.upper = nil, nil, nil, nil, nil
}

// showKey copies the key for the caller, and mangles the copy before it. It does so
// with invariants only.
func (c *iteratorCore) showKey() {
	if invariant.Enabled {
		invariant.Mangle(c.lentKey)
		c.lentKey = append([]byte(nil), c.visible.Entry.Key...)
	}
}

// shownKey returns the key of the current entry, as the caller gets it.
func (c *iteratorCore) shownKey() []byte {
	if invariant.Enabled {
		return c.lentKey
	}
	return c.visible.Entry.Key
}

// beginRange notes where a positioning began to read.
func (c *iteratorCore) beginRange(from []byte) {
	c.reading = true
	if c.tx.state.writes == nil {
		return
	}
	if c.reverse {
		if from == nil || (c.upper != nil && bytes.Compare(from, c.upper) > 0) {
			from = c.upper
		}
	} else if bytes.Compare(from, c.lower) < 0 {
		from = c.lower
	}
	c.start = nil
	if from != nil {
		if c.startBuf == nil {
			c.startBuf = make([]byte, 0, 64)
		}
		c.startBuf = append(c.startBuf[:0], from...)
		c.start = c.startBuf
	}
}

// noteRange records the range that the iterator passed over since its last
// positioning. The range goes from where that began to the current entry, or to the
// bound if there was no further entry. It does not matter which items the caller
// looked at: the iterator has seen that there was nothing between them.
func (c *iteratorCore) noteRange() {
	if !c.reading {
		return
	}
	c.reading = false
	w := c.tx.state.writes
	if w == nil || mutant.On(mutant.SkipRangeCheck) || c.keysOnly && mutant.On(mutant.KeyOnlyUnread) {
		return
	}
	key := c.visible.Entry.Key
	switch valid := c.visible.Valid(); {
	case !c.reverse && valid:
		w.Reads.AddRangeThrough(c.start, key)
	case !c.reverse && mutant.On(mutant.SkipPhantomTail):
		w.Reads.AddRangeThrough(c.start, key)
	case !c.reverse:
		w.Reads.AddRange(c.start, c.upper)
	case valid:
		w.Reads.AddRange(key, c.start)
	default:
		w.Reads.AddRange(c.lower, c.start)
	}
}
