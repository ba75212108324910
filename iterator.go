package stoat

import (
	stditer "iter"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/lock"
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
	working lock.Mutex[lock.Iterator]
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
