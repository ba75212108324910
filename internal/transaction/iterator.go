package transaction

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
)

// IterOptions are stoat.IterOptions.
type IterOptions struct {
	Lower, Upper, Prefix []byte
	Reverse              bool
	KeysOnly             bool
	AllVersions          bool
	Since                uint64
	Prefetch             int
}

// prefetchDefault is the default of IterOptions.Prefetch, in values.
const prefetchDefault = 32

// An Iterator is stoat.Iterator.
type Iterator struct {
	c   *core
	gen uint64 // the generation of c that this iterator is
}

// Iterator is stoat.Txn.Iterator.
func (tx Txn) Iterator(o IterOptions) Iterator {
	it, err := tx.lendIterator()
	if err != nil {
		return Iterator{c: &core{err: err}}
	}
	if err := it.c.open(tx, &o); err != nil {
		tx.forget(it)
		tx.noteRead(err)
	}
	return it
}

// lendIterator returns an iterator that ends with the transaction. Its core is not
// open yet, and working is held.
func (tx Txn) lendIterator() (Iterator, error) {
	if !tx.lockOpen() {
		return Iterator{}, base.ErrTxnDone
	}
	open := &tx.s.open
	defer open.Unlock()
	if err := tx.readable(); err != nil {
		return Iterator{}, err
	}
	c, _ := tx.s.engine.iterators.Get().(*core)
	if c == nil {
		c = new(core)
	}
	c.working.Lock()
	it := Iterator{c, c.gen.Load()}
	open.iterators = append(open.iterators, it)
	return it, nil
}

// forget removes it from the open iterators.
func (tx Txn) forget(it Iterator) {
	open := &tx.s.open
	open.Lock()
	defer open.Unlock()
	for i, other := range open.iterators {
		if other == it {
			last := len(open.iterators) - 1
			open.iterators[i], open.iterators[last] = open.iterators[last], Iterator{}
			open.iterators = open.iterators[:last]
			break
		}
	}
}

// closed reports whether the iterator was closed. Its core may then belong to another
// iterator.
func (it Iterator) closed() bool { return it.c == nil || it.c.gen.Load() != it.gen }

// steady reports whether the iterator can move, if that is easy to tell. It is inlined,
// because each entry asks it. Where it returns false, the caller asks allowed.
func (it Iterator) steady() bool {
	c := it.c
	return c != nil && c.gen.Load() == it.gen && c.err == nil && c.free && !c.ended.Load()
}

// allowed reports whether the iterator can move. If not, it sets the error.
func (it Iterator) allowed() bool {
	if it.closed() || it.c.err != nil {
		return false
	}
	it.c.err = it.c.tx.Check()
	return it.c.err == nil
}

// First is stoat.Iterator.First.
func (it Iterator) First() bool { return it.seek(nil, false) }

// Last is stoat.Iterator.Last.
func (it Iterator) Last() bool { return it.seek(nil, true) }

// Seek is stoat.Iterator.Seek.
func (it Iterator) Seek(key []byte) bool {
	if key == nil {
		key = []byte{}
	}
	return it.seek(key, false)
}

// seek moves to the first entry from key on, in the direction of the options or, if
// turned, in the other one. It makes the transaction's own writes until now visible.
func (it Iterator) seek(key []byte, turned bool) (ok bool) { return it.move(key, turned, true) }

// move is seek. With anew it makes the transaction's own writes until now visible.
func (it Iterator) move(key []byte, turned, anew bool) (ok bool) {
	if it.c == nil {
		return false
	}
	it.c.working.Lock()
	defer it.c.working.Unlock()
	if !it.allowed() {
		return false
	}
	if scope := fault.Enter(); scope {
		defer scope.Leave(&it.c.err)
	}
	c := it.c
	c.noteRange()
	c.tx.noteRead(c.visible.Err()) // the seek forgets it
	if key != nil {
		// The key may be the iterator's own, which the search overwrites.
		c.seekKey = c.tx.Space().Append(c.seekKey[:0], key)
		if c.reverse != (c.turned != turned) {
			c.seekKey = append(c.seekKey, 0) // the first key after key
		}
		key = c.seekKey
	}
	if c.turned != turned {
		c.turn()
	}
	if anew {
		if it.c.err = c.renew(); it.c.err != nil {
			return false
		}
	}
	return c.seek(key)
}

// Next is stoat.Iterator.Next.
func (it Iterator) Next() bool { return it.step(false) }

// Prev is stoat.Iterator.Prev.
func (it Iterator) Prev() bool { return it.step(true) }

// step is Prev if turned, and Next otherwise.
func (it Iterator) step(turned bool) bool {
	if !it.steady() && !it.allowed() {
		return false
	}
	c := it.c
	if c.turned != turned || !c.reading {
		return it.begin(turned)
	}
	if c.visible.Left() == 0 {
		return it.nextRound()
	}
	c.visible.Step()
	if c.escapes || invariant.Enabled {
		c.showKey()
	}
	return true
}

// begin is step without a position, or when the direction changes.
func (it Iterator) begin(turned bool) bool {
	if !it.c.reading {
		return it.seek(nil, turned)
	}
	it.c.working.Lock()
	defer it.c.working.Unlock()
	if !it.allowed() || it.c.visible.Err() != nil {
		return false
	}
	defer fault.Enter().Leave(&it.c.err)
	return it.c.back()
}

// nextRound is Next when it must read entries. The other entries of a round are in
// the iterator's own memory.
func (it Iterator) nextRound() (ok bool) {
	it.c.working.Lock()
	defer it.c.working.Unlock()
	if !it.allowed() {
		return false
	}
	if scope := fault.Enter(); scope {
		defer scope.Leave(&it.c.err)
	}
	ok = it.c.visible.Next()
	it.c.beginRound()
	it.c.showKey()
	return ok
}

// Valid is stoat.Iterator.Valid.
func (it Iterator) Valid() bool { return it.at() != nil }

// at returns the core if the iterator is at an entry, and nil otherwise. A method
// calls it only once, because another goroutine may close the iterator meanwhile.
func (it Iterator) at() *core {
	if c := it.c; c != nil && c.gen.Load() == it.gen && c.err == nil && c.visible.Valid() {
		return c
	}
	return nil
}

// Key is stoat.Iterator.Key.
func (it Iterator) Key() []byte {
	c := it.at()
	if c == nil {
		return nil
	}
	return c.shownKey()
}

// Value is stoat.Iterator.Value.
func (it Iterator) Value() []byte {
	c := it.at()
	if c == nil || c.keysOnly {
		return nil
	}
	e := c.visible.Entry
	if e.Meta.Kind != base.KindPointer {
		return c.tx.lend(e.Value)
	}
	if round, at, _ := c.visible.Round(); at >= 0 && round == c.aheadRound {
		if v := c.ahead.Found(at - c.aheadFrom); v != nil {
			return c.tx.lend(v)
		}
	}
	return it.valueFromFile(c, e)
}

// valueFromFile is Value for a value in a value file that the round has not found yet.
func (it Iterator) valueFromFile(c *core, e *base.Entry) (value []byte) {
	if scope := fault.Enter(); scope {
		defer scope.Leave(&c.err)
	}
	v, ok := it.lookAhead(c)
	if !ok {
		if v, c.err = c.tx.fetch(e.Value, e.Key, e.Seq); c.err != nil {
			return nil
		}
	}
	return c.tx.lend(v)
}

// lookAhead returns the value of the current entry if it is in memory. Its first
// call in a round loads the values of all remaining entries of the round.
func (it Iterator) lookAhead(c *core) ([]byte, bool) {
	round, at, n := c.visible.Round()
	if at < 0 || round != c.aheadRound && !it.loadAhead(c, round, at, n) {
		return nil, false
	}
	return c.ahead.Get(at-c.aheadFrom, &c.tx.s.decoded)
}

// loadAhead loads the values of a round from entry number at on. It reports whether
// the iterator is still open.
func (it Iterator) loadAhead(c *core, round uint64, at, n int) bool {
	it.c.working.Lock()
	defer it.c.working.Unlock()
	if it.closed() {
		return false
	}
	c.aheadRound, c.aheadFrom = round, at
	c.ahead.AddRound(&c.visible, at, n)
	c.ahead.LoadScan(c.prefetch)
	return true
}

// Item is stoat.Iterator.Item.
func (it Iterator) Item() Item {
	c := it.at()
	if c == nil {
		return Item{}
	}
	e := *c.visible.Entry
	if invariant.Enabled {
		e.Key = c.lentKey
	}
	if invariant.Enabled && !c.keysOnly {
		e.Value = c.tx.lend(e.Value)
	}
	return Item{tx: c.tx, entry: e, skip: c.skip, keysOnly: c.keysOnly}
}

// Err is stoat.Iterator.Err.
func (it Iterator) Err() error {
	switch {
	case it.closed():
		return base.ErrTxnDone
	case it.c.err != nil:
		return it.c.err
	}
	return it.c.visible.Err()
}

// Close is stoat.Iterator.Close.
func (it Iterator) Close() error {
	if it.closed() {
		return base.ErrTxnDone
	}
	tx := it.c.tx
	stopped, err := it.stop()
	if stopped && tx.s != nil {
		tx.forget(it)
		tx.s.engine.iterators.Put(it.c)
	}
	return err
}

// closeAtEnd is Close for the end of the transaction s, which has emptied its list of
// iterators.
func (it Iterator) closeAtEnd(s *State) {
	// Several goroutines may use a read-only transaction. One of them may still be
	// at an entry of an iterator that this one left open. No later iterator may then
	// reuse the core.
	if stopped, _ := it.stop(); stopped && s.writes != nil {
		s.engine.iterators.Put(it.c)
	}
}

// stop closes the iterator, and returns the error that ended the iteration. It reports
// false if an earlier call has closed the iterator.
func (it Iterator) stop() (stopped bool, err error) {
	c := it.c
	c.working.Lock()
	defer c.working.Unlock()
	if it.closed() {
		return false, base.ErrTxnDone
	}
	if err = c.err; err == nil {
		err = c.visible.Err()
	}
	c.noteRange()
	c.tx.noteRead(err)
	c.gen.Add(1)
	c.clear()
	return true, err
}
