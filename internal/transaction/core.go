package transaction

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
)

// A core is the state of an open iterator. Later iterators reuse it.
type core struct {
	// gen is the generation of the open iterator. It grows when the iterator closes.
	gen atomic.Uint64
	// err is the error that ended the iteration. It belongs to the goroutine that uses
	// the iterator.
	err error
	// working is held to read the snapshot, and to close the iterator. So the end of
	// the transaction waits for a goroutine that outlives it and reads the snapshot.
	// Next shows entries that were read before without the lock.
	working lock.Mutex[lock.Iterator]

	visible   iter.Visible
	memtables []*memtable.Table // the memtables of the snapshot
	sources   []memtable.Iter   // the memtables, and then the pending writes
	levels    tree.Levels
	inputs    []iter.Input
	// deletions has the range tombstones that the snapshot and the transaction see.
	deletions rangedel.Cursor
	// own is how many writes of the transaction the iterator shows, since its last positioning.
	own      int
	snapshot iter.Snapshot
	gaps     gapReader

	// ahead has the values of one round of visible, from entry number aheadFrom on.
	ahead      tree.Ahead
	aheadRound uint64
	aheadFrom  int
	prefetch   int

	tx   Txn
	view *state.View // of tx
	// The end of the transaction closes the iterator. So only the end of the
	// database and a context can stop it. A free transaction has neither a context
	// nor a snapshot with a limit.
	ended *atomic.Bool
	free  bool

	keysOnly bool
	// reverse is the direction of the iteration now. turned says that it is not that of
	// the options: the last move was Prev or Last.
	reverse, turned bool

	bounds    translated // effective bounds
	prefixEnd []byte     // memory for the end of a prefix
	// skip is the length of what precedes the user's key in the current key. escapes
	// says that it differs within the round.
	skip    uint8
	escapes bool

	// timed says how versions with timestamps are read.
	timed timedReads

	// For a read-write transaction: whether a range is being read, and where it
	// begins in the direction of iteration. A nil start is the very end.
	reading  bool
	start    []byte // nil, or a slice of startBuf
	startBuf []byte

	lentKey []byte // the copy of the key that the caller has, with invariants only
	seekKey []byte
}

// open gives the iterator its snapshot and bounds, and unlocks working.
func (c *core) open(tx Txn, o *IterOptions) error {
	defer c.working.Unlock()
	c.err = c.guardedInit(tx, o)
	return c.err
}

func (c *core) guardedInit(tx Txn, o *IterOptions) (err error) {
	if scope := fault.Enter(); scope {
		defer scope.Leave(&err)
	}
	return c.init(tx, o)
}

func (c *core) init(tx Txn, o *IterOptions) error {
	c.tx, c.keysOnly, c.reverse, c.turned, c.reading, c.timed = tx, o.KeysOnly, o.Reverse, false, false, timedReads{}
	c.ended, c.free = tx.s.engine.Store.ClosedFlag(), !tx.s.limited()
	if c.prefetch = o.Prefetch; c.prefetch == 0 {
		c.prefetch = prefetchDefault
	}
	if c.view = tx.s.view; c.view == nil {
		return base.ErrTxnDone // the transaction ended just now, on another goroutine
	}
	c.skip, c.escapes = tx.skip(nil), false
	c.ahead.Init(c.view.Tree)
	c.setBounds(o)
	since := base.SeqNum(o.Since)
	c.memtables = c.view.MemtablesSince(since)
	if len(c.memtables) > 0 && c.memtables[0].Len() == 0 {
		c.memtables = c.memtables[1:] // the snapshot does not see later writes
	}
	c.initLevels(since)
	n, depth := len(c.memtables), c.levels.Len()
	if tx.s.writes != nil {
		n++
	}
	c.sources, c.inputs = resize(c.sources, n), resize(c.inputs, n+depth)
	for i, t := range c.memtables {
		c.sources[i].Init(t, c.reverse)
		c.inputs[i] = iter.Input{Source: &c.sources[i]}
	}
	if tx.s.writes != nil {
		tx.s.lentOwn = true
		c.sources[n-1].Init(tx.s.writes.Pending, c.reverse)
		c.inputs[n-1] = iter.Input{Source: &c.sources[n-1], Pending: true}
	}
	for i := range depth {
		c.inputs[n+i] = iter.Input{Source: c.levels.Source(i), Grouped: true}
	}
	c.snapshot = iter.Snapshot{
		At: tx.s.seq, Since: since, Clock: c, Fold: c, AllVersions: o.AllVersions, Values: !o.KeysOnly,
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

// initLevels prepares the tables for the direction of the iteration.
func (c *core) initLevels(since base.SeqNum) {
	c.levels.Init(c.view.Tree, since, table.IterOptions{Reverse: c.reverse, KeysOnly: c.keysOnly, Arena: &c.tx.s.decoded})
}

// begin merges the inputs into what the snapshot sees, at no position.
func (c *core) begin() {
	c.visible.Init(c.inputs, c.reverse, c.bounds.lower, c.bounds.upper, c.snapshot)
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
func (c *core) Ended() error { return c.tx.Check() }

// Expired reports whether an entry has expired at the time of the transaction. It
// implements iter.Snapshot.Clock.
func (c *core) Expired(at uint64, own bool) bool { return c.tx.Expired(at, own) }

// setBounds combines the bounds and the prefix of the options into one pair of
// bounds, in memory of its own.
func (c *core) setBounds(o *IterOptions) {
	c.prefixEnd = slices.Grow(c.prefixEnd[:0], len(o.Prefix))
	lower, upper := base.WithPrefix(o.Lower, o.Upper, o.Prefix, c.prefixEnd)
	c.bounds.set(c.tx.Space(), lower, upper)
}

// cover collects the range tombstones that hide keys from the iterator. Without
// range tombstones it costs one look at each structure, and nothing for each key.
func (c *core) cover() error {
	c.deletions.Init(c.reverse)
	at := c.tx.s.seq
	for _, t := range c.view.Memtables {
		t.AddDeletions(&c.deletions, at)
	}
	c.own = 0
	if w := c.tx.s.writes; w != nil {
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
	c.setGaps()
	return nil
}

// setAges tells the newest sequence number of each input. The iterator skips an
// input that is older than a range tombstone where the tombstone covers it. The
// active memtable takes further writes, but its source shows none of them.
func (c *core) setAges() {
	for i, t := range c.memtables {
		c.inputs[i].MaxSeq = t.LastSeq()
	}
	for i := range c.levels.Len() {
		c.inputs[len(c.sources)+i].MaxSeq = c.levels.NewestSeq(i)
	}
}

// renew makes the transaction's own writes until now visible, before a positioning.
func (c *core) renew() error {
	w := c.tx.s.writes
	if w == nil {
		return nil
	}
	before, own := c.own, w.Pending.Len()
	c.sources[len(c.sources)-1].Init(w.Pending, c.reverse)
	if w.Pending.HasDeletions() && own != before {
		if err := c.cover(); err != nil {
			return err
		}
		c.begin()
	}
	c.own = own
	return nil
}

// clear releases everything that belongs to the transaction, except tx: a goroutine
// that outlives the transaction may still ask it.
func (c *core) clear() {
	invariant.Mangle(c.lentKey)
	c.visible.Clear()
	c.ahead.Clear()
	clear(c.inputs)
	for i := range c.sources {
		c.sources[i].Close()
	}
	c.levels.Close()
	c.deletions.Init(false)
	c.snapshot, c.gaps, c.timed = iter.Snapshot{}, gapReader{}, timedReads{}
	c.view, c.memtables, c.bounds.lower, c.bounds.upper = nil, nil, nil, nil
}

// showKey prepares the key of the current entry for the caller. With invariants it
// copies the key, and mangles the copy before it.
func (c *core) showKey() {
	if c.escapes {
		c.setSkip()
	}
	if invariant.Enabled {
		invariant.Mangle(c.lentKey)
		c.lentKey = append([]byte(nil), c.visible.Entry.Key...)
	}
}

// shownKey returns the key of the current entry, as the caller gets it.
func (c *core) shownKey() []byte {
	if invariant.Enabled {
		return c.lentKey[c.skip:]
	}
	return c.visible.Entry.Key[c.skip:]
}

// beginRound looks for escaped keys in a new round. All keys of another keyspace than
// the default one have the same prefix.
func (c *core) beginRound() {
	c.escapes = false
	if c.tx.in != nil || !c.visible.Valid() {
		return
	}
	c.skip = 0
	first := c.visible.Entry.Key
	last := first
	if _, at, n := c.visible.Round(); at >= 0 {
		last = c.visible.InRound(n - 1).Key
	}
	c.escapes = !c.tx.plain(first) || !c.tx.plain(last)
}

// setSkip sets skip in a round with escaped keys.
func (c *core) setSkip() {
	defer fault.Enter().Leave(&c.err)
	if c.visible.Valid() {
		c.skip = c.tx.skip(c.visible.Entry.Key)
	}
}

// beginRange notes where a positioning began to read.
func (c *core) beginRange(from []byte) {
	c.reading = true
	if c.tx.s.writes == nil {
		return
	}
	if c.reverse {
		if from == nil || (c.bounds.upper != nil && bytes.Compare(from, c.bounds.upper) > 0) {
			from = c.bounds.upper
		}
	} else if bytes.Compare(from, c.bounds.lower) < 0 {
		from = c.bounds.lower
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
func (c *core) noteRange() {
	if !c.reading {
		return
	}
	c.reading = false
	w := c.tx.s.writes
	if w == nil || mutant.On(mutant.SkipRangeCheck) || c.keysOnly && mutant.On(mutant.KeyOnlyUnread) {
		return
	}
	if c.timed.kind != timedRanges {
		c.noteVersions(&w.Reads)
		return
	}
	key := c.visible.Entry.Key
	switch valid := c.visible.Valid(); {
	case !c.reverse && valid:
		w.Reads.AddRangeThrough(c.start, key)
	case !c.reverse && mutant.On(mutant.SkipPhantomTail):
		w.Reads.AddRangeThrough(c.start, key)
	case !c.reverse:
		w.Reads.AddRange(c.start, c.bounds.upper)
	case valid:
		w.Reads.AddRange(key, c.start)
	default:
		w.Reads.AddRange(c.bounds.lower, c.start)
	}
}
