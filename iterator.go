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
	// Lower (inclusive) and Upper (exclusive) bound the keys. nil is no bound.
	// Prefix restricts further to keys that start with it.
	Lower, Upper, Prefix []byte
	// Reverse iterates from the last key to the first.
	Reverse bool
	// KeysOnly reads no values: Value returns nil.
	KeysOnly bool
	// AllVersions shows every kept version of every key, including tombstones and
	// expired values. Versions of a key come newest first, and oldest first with
	// Reverse.
	//
	// The iterator ignores deletions by DeleteRange, DropPrefix and DropAll: it
	// shows what they deleted and is still kept, and does not show the deletions.
	//
	// Background jobs drop versions that no snapshot sees: those beyond
	// Options.NumVersions, and those that a range deletion hides. They drop a
	// tombstone when it hides nothing any more.
	AllVersions bool
	// Since shows only versions greater than it: what was written after the
	// transaction of that version. Without AllVersions, that is the newest version
	// of each key, if it is a value. A caller that follows changes therefore sees
	// no deletions. With AllVersions, it sees the deletions that are still kept.
	//
	// The iterator does not read tables without newer versions. It reads all of the
	// others, as without Since. So it finds recent writes fast. Later, merges move
	// them into tables with older data.
	Since uint64
	// Prefetch is how many upcoming values the iterator fetches from the disk
	// together, if they lie in value files and are not in memory yet. Default: 32.
	// Maximum: 64; a greater number means 64. A negative number fetches values one
	// by one.
	Prefetch int
}

// prefetchDefault is the default of IterOptions.Prefetch, in values.
const prefetchDefault = 32

// An Iterator walks over the keys of a transaction's snapshot. It includes the
// transaction's own writes as of the last First or Seek. One goroutine at a time
// may use it. The caller must close it; the end of the transaction closes it too.
//
// A key is valid until the iterator moves, a value until the transaction ends.
type Iterator struct {
	tx *Txn
	// err is why core is nil, or must not be used. It belongs to the goroutine that
	// uses the iterator; the end of the transaction sets it under working.
	err error
	// working is held to read the snapshot through core, and to take core away. So
	// the end of the transaction waits for a goroutine that outlives it and reads
	// the snapshot. Next shows entries that were read before without the lock.
	working lock.Mutex[lock.Iterator]
	// core is set under working. It is nil once the iterator is closed.
	core *iteratorCore
}

// Iterator returns an iterator before its first entry. Err returns the error, if
// there is one.
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

// lendIterator returns an iterator that ends with the transaction. It has no core
// yet, and working is held. An Iterator value is never reused; only its core is.
func (tx *Txn) lendIterator() (*Iterator, error) {
	if !tx.lockOpen() {
		return nil, ErrTxnDone
	}
	open := &tx.state.open
	defer open.Unlock()
	if err := tx.check(); err != nil {
		return nil, err
	}
	it := tx.state.newIteratorLocked()
	it.tx = tx
	it.working.Lock()
	open.iterators = append(open.iterators, it)
	return it, nil
}

// forget removes it from the open iterators.
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

// open gives an iterator of lendIterator its core, and unlocks working.
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

// ready reports whether the iterator can move. If not, it sets the error.
func (it *Iterator) ready() bool { return it.steady() || it.allowed() }

// steady is ready for the usual case, without a call, because each entry asks it.
func (it *Iterator) steady() bool {
	c := it.core
	return c != nil && it.err == nil && c.free && !c.closed.Load()
}

// allowed is ready for all cases: it also asks the transaction.
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

// First moves to the first entry in the direction of iteration. It reports whether
// there is one.
func (it *Iterator) First() bool { return it.seek(nil) }

// Seek moves to the first entry with a key >= key. With Reverse it moves to the
// last entry with a key <= key. It reports whether there is one.
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
		// The key may be the iterator's own, which the search overwrites.
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

// Next moves to the next entry. If the iterator has no position yet, Next moves to
// the first entry. It reports whether there is one.
func (it *Iterator) Next() bool {
	c := it.core // one load: another goroutine may close the iterator
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

// nextRound is Next when it must read entries. The other entries of a round are in
// the iterator's own memory.
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

// at returns the core if the iterator is at an entry, and nil otherwise. A method
// calls it only once, because another goroutine may close the iterator meanwhile.
func (it *Iterator) at() *iteratorCore {
	if c := it.core; c != nil && it.err == nil && c.visible.Valid() {
		return c
	}
	return nil
}

// Key returns the key, which is valid until the iterator moves. It returns nil when
// the iterator is not at an entry.
func (it *Iterator) Key() []byte {
	c := it.at()
	if c == nil {
		return nil
	}
	return c.shownKey()
}

// Value returns the value, which is valid until the transaction ends. It returns
// nil when the iterator is not at an entry, and with KeysOnly. If the value cannot
// be read, Value returns nil, the iteration ends, and Err returns the error.
func (it *Iterator) Value() []byte {
	c := it.at()
	if c == nil || c.keysOnly {
		return nil
	}
	e := &c.visible.Entry
	if e.Meta.Kind == base.KindPointer {
		return it.valueFromFile(c, e)
	}
	return it.tx.lend(e.Value)
}

// valueFromFile is Value for a value in a value file.
func (it *Iterator) valueFromFile(c *iteratorCore, e *base.Entry) (value []byte) {
	defer fault.Enter().Leave(&it.err)
	v, ok := it.lookAhead(c, e)
	if !ok {
		if v, it.err = it.tx.fetch(e.Value, e.Key, e.Seq); it.err != nil {
			return nil
		}
	}
	return it.tx.lend(v)
}

// lookAhead returns the value of the current entry if it is in memory. Its first
// call in a round loads the values of all remaining entries of the round.
func (it *Iterator) lookAhead(c *iteratorCore, e *base.Entry) ([]byte, bool) {
	round, at, n := c.visible.Round()
	if at < 0 || round != c.aheadRound && !it.loadAhead(c, round, at, n) {
		return nil, false
	}
	return c.ahead.Get(at-c.aheadFrom, e.Key, e.Seq, &it.tx.state.decoded)
}

// loadAhead loads the values of a round from entry number at on. It reports whether
// the iterator is still open.
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

// Item returns the entry with its metadata. It returns the zero Item when the
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

// Err returns the error that ended the iteration, if there is one. The caller
// checks it when Valid reports false. Without such an error, Err returns ErrTxnDone
// once the transaction has ended.
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

// Close closes the iterator. Later calls do nothing. The end of the transaction
// also closes its iterators.
func (it *Iterator) Close() {
	if c := it.stop(); c != nil {
		it.tx.forget(it)
		it.tx.db.iterators.Put(c)
	}
}

// closeAtEnd is Close for the end of the transaction, which has emptied its list of
// iterators.
func (it *Iterator) closeAtEnd() {
	// Several goroutines may use a read-only transaction. One of them may still be
	// at an entry of an iterator that this one left open. No later iterator may then
	// reuse the core.
	if c := it.stop(); c != nil && it.tx.state.writes != nil {
		it.tx.db.iterators.Put(c)
	}
}

// stop takes the core away, so that the iterator returns ErrTxnDone. It returns the
// core, or nil if an earlier call took it.
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

// All loops over all keys and their values in order. As for Prefix and Range, a key
// is valid until the next turn of the loop, a value until the transaction ends. An
// error ends the loop, and Err of the transaction returns it.
func (tx *Txn) All() stditer.Seq2[[]byte, []byte] { return tx.loop(IterOptions{}) }

// Prefix loops over the keys that start with prefix, and their values. See All.
func (tx *Txn) Prefix(prefix []byte) stditer.Seq2[[]byte, []byte] {
	return tx.loop(IterOptions{Prefix: prefix})
}

// Range loops over the keys from lo (inclusive) to hi (exclusive), and their
// values. nil is no bound. See All.
func (tx *Txn) Range(lo, hi []byte) stditer.Seq2[[]byte, []byte] {
	return tx.loop(IterOptions{Lower: lo, Upper: hi})
}

// loop turns an iterator into a function for range loops.
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
