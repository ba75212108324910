package stoat

import (
	"bytes"
	stditer "iter"
	"sync"
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

// IterOptions choose what an iterator shows.
type IterOptions struct {
	// Lower and Upper bound the keys: Lower inclusive, Upper exclusive. nil
	// is unbounded. Prefix restricts further to keys that start with it.
	Lower, Upper, Prefix []byte
	// Reverse iterates from the last key to the first.
	Reverse bool
	// KeysOnly leaves the values alone: Value returns nil.
	KeysOnly bool
	// AllVersions shows every version of every key that is still kept, newest
	// first (oldest first when Reverse), deletions and expired values included.
	//
	// What DeleteRange, DropPrefix and DropAll have deleted is shown as if they
	// had not been, and they themselves are not shown. The background drops
	// what nobody sees: versions beyond Options.NumVersions, a deletion once
	// there is nothing left that it hides, and what ranges hide.
	AllVersions bool
	// Since shows only versions greater than it: what was written after the
	// transaction of that version. Without AllVersions that is the newest version
	// of each key, if it is a value: who follows changes by it learns of no
	// deletion, and with AllVersions of those that are still kept.
	//
	// Tables that have nothing newer are not read. The others are walked through as
	// without Since. So what was written lately is found soon; later, merges bring
	// it into tables with what is older.
	Since uint64
	// Prefetch is how many of the values that come next are fetched from the
	// disk together, if they are stored apart from their keys and not yet in
	// memory. Default: 32, and no more than 64. Negative fetches one by one.
	Prefetch int
}

// prefetchDefault is IterOptions.Prefetch where the user does not say.
const prefetchDefault = 32

// An Iterator walks over the keys of a transaction's snapshot, its own writes
// included as they were when the iterator was last positioned by First or
// Seek. It is used by one goroutine at a time and must be closed; the end of
// the transaction closes it too.
//
// The key it shows is borrowed until the iterator moves, the value until the
// transaction ends.
type Iterator struct {
	tx   *Txn
	core *iteratorCore // nil once closed
	err  error         // why there is no core, or why it must not be used
	// working is held while core looks at what the snapshot keeps, and to take it
	// away. So the end of the transaction waits for a look that a goroutine takes
	// which should have ended before. Entries that were read before, Next shows
	// without it.
	working sync.Mutex
}

// An iteratorCore is what an open iterator works with. It is reused by later
// iterators.
type iteratorCore struct {
	visible   iter.Visible
	memtables []*memtable.Table // those that are iterated over
	sources   []memtable.Iter   // of the memtables, and of the pending writes
	levels    tree.Levels
	inputs    []iter.Input
	// deletions are the range deletions that the snapshot and the transaction
	// see. The latter are those among the first own pending writes.
	deletions rangedel.Cursor
	own       int
	snapshot  iter.Snapshot

	// ahead has the values of the entries of one round of visible, those from
	// number aheadFrom on.
	ahead      tree.Ahead
	aheadRound uint64
	aheadFrom  int
	prefetch   int

	tx   *Txn
	view *state.View // of tx
	// The end of the transaction closes the iterator, so that only these two
	// can stop it: the end of the database, and a context, which a transaction
	// that is free does not have.
	closed *atomic.Bool
	free   bool

	keysOnly     bool
	reverse      bool
	lower, upper []byte // effective bounds, in memory of bounds
	bounds       []byte

	// For a read-write transaction: where the range that is being read
	// begins in the direction of iteration, nil for the very end of it.
	reading  bool
	start    []byte // nil, or startBuf
	startBuf []byte

	lentKey []byte // the key as shown, with invariants only
	seekKey []byte
}

// Iterator returns an iterator before its first entry. Errors show in Err.
func (tx *Txn) Iterator(o IterOptions) *Iterator {
	it, err := tx.lendIterator()
	if err != nil {
		return &Iterator{tx: tx, err: err}
	}
	if err := it.open(&o); err != nil {
		tx.forget(it)
	}
	return it
}

// lendIterator returns an iterator that ends with the transaction, with nothing to
// work with yet, and working held. Like the transaction, the Iterator never becomes
// another one: only its core does.
func (tx *Txn) lendIterator() (*Iterator, error) {
	if !tx.lockOpen() {
		return nil, ErrTxnDone
	}
	open := &tx.state.open
	defer open.Unlock()
	if err := tx.check(); err != nil {
		return nil, err
	}
	it := &Iterator{tx: tx}
	it.working.Lock()
	open.iterators = append(open.iterators, it)
	return it, nil
}

// forget takes it from the open iterators.
func (tx *Txn) forget(it *Iterator) {
	open := &tx.state.open
	open.Lock()
	defer open.Unlock()
	for i, other := range open.iterators {
		if other == it {
			last := len(open.iterators) - 1
			open.iterators[i], open.iterators[last] = open.iterators[last], nil
			open.iterators = open.iterators[:last]
			break
		}
	}
}

// open gives an iterator that was just lent what it works with, and lets go of
// working.
func (it *Iterator) open(o *IterOptions) error {
	defer it.working.Unlock()
	pool := &it.tx.db.iterators
	c, _ := pool.Get().(*iteratorCore)
	if c == nil {
		c = new(iteratorCore)
	}
	if it.err = c.open(it.tx, o); it.err != nil {
		c.clear()
		pool.Put(c)
		return it.err
	}
	it.core = c
	return nil
}

// open is init, guarded.
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
		return ErrTxnDone // it has just ended, under somebody's hands
	}
	c.ahead.Init(c.view.Tree)
	c.setBounds(o)
	c.memtables = c.view.Memtables
	if c.memtables[0].Len() == 0 {
		c.memtables = c.memtables[1:] // what comes into it, the snapshot does not see
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

// begin makes what is visible out of the inputs, at no position.
func (c *iteratorCore) begin() {
	c.visible.Init(c.inputs, c.reverse, c.lower, c.upper, c.snapshot)
	c.visible.Together(&c.levels)
}

// resize returns s with n elements, whatever they are.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// Ended tells why the iteration can not go on, if it can not.
func (c *iteratorCore) Ended() error { return c.tx.check() }

// Expired reports whether something has expired at the transaction's time.
func (c *iteratorCore) Expired(at uint64, own bool) bool { return c.tx.expired(at, own) }

// setBounds makes one pair of bounds of the options, in memory of its own.
func (c *iteratorCore) setBounds(o *IterOptions) {
	lower, upper := o.Lower, o.Upper
	if c.bounds == nil {
		c.bounds = make([]byte, 0, 64) // so that an empty bound is not none
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

// prefixEnd turns a prefix, in place, into the first key after all those that
// start with it, or returns nil when there is none.
func prefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i]++; prefix[i] != 0 {
			return prefix[:i+1]
		}
	}
	return nil
}

// ready reports whether the iterator can move, and sets its error if not.
func (it *Iterator) ready() bool { return it.steady() || it.allowed() }

// steady answers ready in the usual case, without a call: it is asked for
// every entry.
func (it *Iterator) steady() bool {
	c := it.core
	return c != nil && it.err == nil && c.free && !c.closed.Load()
}

// allowed is ready, asked of the transaction as well.
func (it *Iterator) allowed() bool {
	if it.core == nil {
		if it.err == nil {
			it.err = ErrTxnDone
		}
		return false
	}
	if err := it.tx.check(); err != nil {
		it.err = err
		return false
	}
	return it.err == nil
}

// First moves to the first entry in the direction of iteration, and reports
// whether there is one.
func (it *Iterator) First() bool { return it.seek(nil) }

// Seek moves to the first entry with a key >= key, or backwards to the last
// entry with a key <= key, and reports whether there is one.
func (it *Iterator) Seek(key []byte) bool {
	if key == nil {
		key = []byte{}
	}
	return it.seek(key)
}

func (it *Iterator) seek(key []byte) (ok bool) {
	it.working.Lock()
	defer it.working.Unlock()
	if !it.allowed() {
		return false
	}
	defer fault.Enter().Leave(&it.err)
	c := it.core
	if key != nil {
		// It may be the iterator's own, which the search overwrites.
		c.seekKey = append(c.seekKey[:0], key...)
		if c.reverse {
			c.seekKey = append(c.seekKey, 0) // the first key after key
		}
		key = c.seekKey
	}
	c.noteRange()
	if w := it.tx.state.writes; w != nil {
		c.sources[len(c.sources)-1].Init(w.Pending, c.reverse)
		if w.Pending.HasDeletions() && w.Pending.Len() != c.own {
			if it.err = c.coverAnew(); it.err != nil {
				return false
			}
		}
	}
	ok = c.visible.Seek(key)
	c.beginRange(key)
	c.showKey()
	return ok
}

// Next moves to the next entry, or to the first one if the iterator has not
// been positioned, and reports whether there is one.
func (it *Iterator) Next() bool {
	c := it.core // once: it may be closed meanwhile
	if !it.ready() {
		return false
	}
	if !c.reading {
		return it.seek(nil)
	}
	if c.visible.Left() == 0 {
		return it.nextRound()
	}
	ok := c.visible.Next()
	c.showKey()
	return ok
}

// nextRound is Next where entries have to be read. The others of a round are in
// memory of the iterator's own.
func (it *Iterator) nextRound() (ok bool) {
	it.working.Lock()
	defer it.working.Unlock()
	if !it.allowed() {
		return false
	}
	defer fault.Enter().Leave(&it.err)
	ok = it.core.visible.Next()
	it.core.showKey()
	return ok
}

// Valid reports whether the iterator is at an entry.
func (it *Iterator) Valid() bool { return it.at() != nil }

// at returns what the iterator works with if it is at an entry. It is asked once
// for each look at the entry: who closes the iterator may do so meanwhile.
func (it *Iterator) at() *iteratorCore {
	if c := it.core; c != nil && it.err == nil && c.visible.Valid() {
		return c
	}
	return nil
}

// Key returns the key, borrowed until the iterator moves; nil when the
// iterator is not at an entry.
func (it *Iterator) Key() []byte {
	c := it.at()
	if c == nil {
		return nil
	}
	return c.shownKey()
}

// Value returns the value, borrowed until the transaction ends; nil when the
// iterator is not at an entry or shows keys only, and when the value could not
// be read: then the iteration ends and Err tells why.
func (it *Iterator) Value() []byte {
	c := it.at()
	if c == nil || c.keysOnly {
		return nil
	}
	e := &c.visible.Entry
	if e.Meta.Kind == base.KindPointer {
		return it.valueApart(c, e)
	}
	return it.tx.lend(e.Value)
}

// valueApart is Value for a value that is stored apart from its key.
func (it *Iterator) valueApart(c *iteratorCore, e *base.Entry) (value []byte) {
	defer fault.Enter().Leave(&it.err)
	v, ok := it.lookAhead(c, e)
	if !ok {
		if v, it.err = it.tx.fetch(e.Value, e.Key, e.Seq); it.err != nil {
			return nil
		}
	}
	return it.tx.lend(v)
}

// lookAhead returns the value of the entry that the iterator is at, if it is
// in memory. The first time that this is asked in a round, it looks for the
// values of all entries that are left of it.
func (it *Iterator) lookAhead(c *iteratorCore, e *base.Entry) ([]byte, bool) {
	round, at, n := c.visible.Round()
	if at < 0 || round != c.aheadRound && !it.loadAhead(c, round, at, n) {
		return nil, false
	}
	return c.ahead.Get(at-c.aheadFrom, e.Key, e.Seq, &it.tx.state.decoded)
}

// loadAhead looks for the values of a round from entry number at on. It reports
// whether the iterator is still open.
func (it *Iterator) loadAhead(c *iteratorCore, round uint64, at, n int) bool {
	it.working.Lock()
	defer it.working.Unlock()
	if it.core != c {
		return false
	}
	c.aheadRound, c.aheadFrom = round, at
	c.ahead.Begin()
	for i := at; i < n; i++ {
		key, value, m := c.visible.InRound(i)
		if m.Kind != base.KindPointer {
			value = nil
		}
		c.ahead.Add(value, len(key))
	}
	c.ahead.Load(c.prefetch)
	return true
}

// Item returns the entry with all that is known of it; the zero Item when the
// iterator is not at an entry.
func (it *Iterator) Item() Item {
	c := it.at()
	if c == nil {
		return Item{}
	}
	e := c.visible.Entry
	e.Key = c.shownKey()
	if invariant.Enabled && !c.keysOnly {
		e.Value = it.tx.lend(e.Value)
	}
	return Item{tx: it.tx, entry: e, keysOnly: c.keysOnly}
}

// Err returns the error that ended the iteration, if one did. It is to be
// asked when Valid reports false. Without such an error it returns ErrTxnDone once
// the transaction has ended.
func (it *Iterator) Err() error {
	c := it.core
	switch {
	case it.err != nil:
		return it.err
	case c != nil:
		return c.visible.Err()
	case it.tx.ended():
		return ErrTxnDone
	}
	return nil
}

// Close ends the iterator. Later calls do nothing. The end of the transaction
// closes its iterators too.
func (it *Iterator) Close() {
	if c := it.stop(); c != nil {
		it.tx.forget(it)
		it.tx.db.iterators.Put(c)
	}
}

// closeAtEnd is Close for the end of the transaction, which has forgotten it.
func (it *Iterator) closeAtEnd() {
	// A transaction that only reads may be used by several goroutines. One of them
	// may still be at an entry of what this one has left open: then nobody else can
	// have it.
	if c := it.stop(); c != nil && it.tx.state.writes != nil {
		it.tx.db.iterators.Put(c)
	}
}

// stop makes the iterator answer ErrTxnDone, and returns what it has worked with,
// or nil if that was done before.
func (it *Iterator) stop() *iteratorCore {
	it.working.Lock()
	defer it.working.Unlock()
	c := it.core
	if c == nil {
		return nil
	}
	if it.err == nil {
		it.err = c.visible.Err()
	}
	c.noteRange()
	it.core = nil
	c.clear()
	return c
}

// clear lets go of the transaction.
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

// showKey lends the key under invariants and spoils the one lent before.
func (c *iteratorCore) showKey() {
	if invariant.Enabled {
		invariant.Mangle(c.lentKey)
		c.lentKey = append([]byte(nil), c.visible.Entry.Key...)
	}
}

// shownKey returns the key of the entry that it is at, as it is lent.
func (c *iteratorCore) shownKey() []byte {
	if invariant.Enabled {
		return c.lentKey
	}
	return c.visible.Entry.Key
}

// beginRange notes where a positioning began to look.
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

// noteRange adds what was passed over since the last positioning to what the
// transaction has read: from where it began to look to the entry it is at, or
// to the bound if it found no more. Items need not have been looked at: that
// there was nothing between them has been seen.
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

// All loops over all keys and values in order.
func (tx *Txn) All() stditer.Seq2[[]byte, []byte] { return tx.loop(IterOptions{}) }

// Prefix loops over the keys that start with prefix and their values.
func (tx *Txn) Prefix(prefix []byte) stditer.Seq2[[]byte, []byte] {
	return tx.loop(IterOptions{Prefix: prefix})
}

// Range loops over the keys of [lo, hi) and their values; nil is unbounded.
func (tx *Txn) Range(lo, hi []byte) stditer.Seq2[[]byte, []byte] {
	return tx.loop(IterOptions{Lower: lo, Upper: hi})
}

// loop makes a range-over-func of an iterator. Keys are borrowed until the
// next turn, values until the transaction ends; an error ends the loop and
// shows in Txn.Err.
func (tx *Txn) loop(o IterOptions) stditer.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		it := tx.Iterator(o)
		tx.beginLoop()
		defer func() {
			it.Close()
			tx.endLoop(it.Err())
		}()
		for it.Next() {
			value := it.Value()
			if it.err != nil || !yield(it.Key(), value) {
				return
			}
		}
	}
}

func (tx *Txn) beginLoop() {
	if !tx.lockOpen() {
		return
	}
	defer tx.state.open.Unlock()
	if tx.state.open.loops++; tx.state.open.loops == 1 {
		tx.state.open.loopErr = nil
	}
}

func (tx *Txn) endLoop(err error) {
	if !tx.lockOpen() {
		return
	}
	defer tx.state.open.Unlock()
	tx.state.open.loops--
	if tx.state.open.loopErr == nil {
		tx.state.open.loopErr = err
	}
}
