package memtable

import (
	"bytes"
	"encoding/binary"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// An Iter iterates over the entries of a table, except range deletions. It
// implements iter.Source. It shows the table as of Init, including pending
// entries that die later. The next Init reuses its buffers. An Iter must not be
// copied while in use.
type Iter struct {
	t       *Table
	set     *runSet
	err     error
	reverse bool

	cursors []cursor
	// queue holds the cursors that are not at their end, the one with the next
	// entry first.
	queue []*cursor
	refs  [iter.BatchSize]Ref
	// passing is memory for Pass. passedRef is what newerThan found for version passed,
	// or 0.
	passing   []*cursor
	passed    base.SeqNum
	passedRef uint64
	// paid is added to that of the set at the end.
	paid int64
	// deletions are the range deletions of the transaction that owns the table.
	// They hide what the transaction wrote before them.
	deletions rangedel.Cursor
	// touched has no meaning; see Table.touched.
	touched uint64
}

var _ iter.Source = (*Iter)(nil)

// A cursor is a position in one run. Forward, pos is the index of the next item;
// backward, it is one more than that.
type cursor struct {
	items []item
	pos   int
	// head orders the cursors. It is the first 8 bytes of the next key after the
	// prefix that all runs share, complemented when going backward.
	head uint64
	// A run may have a longer shared prefix than all runs together. drop is the
	// number of additional bits, and top holds those bits.
	drop uint
	top  uint64
	flip uint64
	age  int // position of the run in its set; a higher one is newer
	run  *run
}

// Middle returns a copy of a key with about as many entries before it as after
// it, or nil if the table has no keys.
func (t *Table) Middle() ([]byte, error) {
	set, err := t.snapshot()
	if err != nil {
		return nil, err
	}
	defer t.dropSet(set)
	var longest []item
	for _, r := range set.runs {
		if len(r.items) > len(longest) {
			longest = r.items
		}
	}
	if len(longest) == 0 {
		return nil, nil
	}
	e := t.arena.at(longest[len(longest)/2].ref)
	return bytes.Clone(e.key(e.word())), nil
}

// Init makes it an unpositioned iterator over all entries of t that are
// published. It closes an earlier iteration first.
func (it *Iter) Init(t *Table, reverse bool) {
	it.Close()
	it.t, it.reverse = t, reverse
	if it.set, it.err = t.snapshot(); it.err != nil {
		return
	}
	t.pendingDeletions(&it.deletions, reverse, it.set.covered)
	shared := sharedByAll(it.set.runs)
	if cap(it.cursors) < len(it.set.runs) {
		it.cursors = make([]cursor, len(it.set.runs), len(it.set.runs)+4)
		it.queue = make([]*cursor, 0, len(it.set.runs)+4)
	}
	it.cursors = it.cursors[:len(it.set.runs)]
	for i, r := range it.set.runs {
		c := &it.cursors[i]
		*c = cursor{items: r.items, age: i, run: r}
		c.drop, c.top = headDrop(r.shared[shared:])
		if reverse {
			c.flip = ^uint64(0)
		}
	}
}

// Turn changes the direction, and leaves the iterator without a position. The
// iterator still shows the table as of Init.
func (it *Iter) Turn() {
	it.reverse = !it.reverse
	it.deletions.Turn()
	for i := range it.cursors {
		it.cursors[i].flip ^= ^uint64(0)
	}
	it.queue = it.queue[:0]
}

// Close releases the table. Calling it twice, or without Init, is no error.
func (it *Iter) Close() {
	if it.set != nil {
		if it.paid > 0 {
			it.set.paid.Add(it.paid)
		}
		it.t.dropSet(it.set)
	}
	it.paid = 0
	it.t, it.set, it.err = nil, nil, nil
	it.passed, it.passedRef = 0, 0
	it.deletions.Init(false)
	clear(it.cursors)
	clear(it.queue)
	it.cursors, it.queue = it.cursors[:0], it.queue[:0]
}

// sharedByAll returns the length of the prefix that the keys of all runs share.
func sharedByAll(list []*run) int {
	if len(list) == 0 {
		return 0
	}
	n := len(list[0].shared)
	for _, r := range list[1:] {
		n = base.CommonLen(list[0].shared[:n], r.shared)
	}
	return n
}

// headDrop makes a run's cached bytes comparable with those of other runs. It
// returns how many bits to shift them by, and the prefix to put before them.
func headDrop(prefix []byte) (drop uint, top uint64) {
	var b [8]byte
	n := copy(b[:], prefix)
	return uint(n) * 8, binary.BigEndian.Uint64(b[:])
}

func (c *cursor) done(reverse bool) bool {
	if reverse {
		return c.pos == 0
	}
	return c.pos == len(c.items)
}

// next returns the item at the cursor.
func (c *cursor) next() *item { return &c.items[c.pos-int(c.flip&1)] }

func (c *cursor) setHead() { c.head = (c.top | c.next().hi>>c.drop) ^ c.flip }

// Seek implements iter.Source.
func (it *Iter) Seek(key []byte) {
	it.queue = it.queue[:0]
	if n := len(it.cursors); n > 1 {
		it.paid += seekCost * int64(n-1)
	}
	for i := range it.cursors {
		c := &it.cursors[i]
		switch {
		case key != nil:
			c.pos = c.run.search(it.t, key)
		case it.reverse:
			c.pos = len(c.items)
		default:
			c.pos = 0
		}
		if !c.done(it.reverse) {
			c.setHead()
			it.queue = append(it.queue, c)
			it.sink(len(it.queue) - 1)
		}
	}
}

// sink moves the cursor at index i of the queue forward to its place. The rest
// of the queue is in order.
func (it *Iter) sink(i int) {
	c := it.queue[i]
	for ; i > 0 && it.before(c, it.queue[i-1]); i-- {
		it.queue[i] = it.queue[i-1]
	}
	it.queue[i] = c
}

// rise moves the first cursor of the queue back to its place. The others are in
// order.
func (it *Iter) rise() {
	c := it.queue[0]
	i := 0
	for ; i+1 < len(it.queue) && it.before(it.queue[i+1], c); i++ {
		it.queue[i] = it.queue[i+1]
	}
	it.queue[i] = c
}

// before reports whether a's next entry comes before b's.
func (it *Iter) before(a, b *cursor) bool {
	if a.head != b.head {
		return a.head < b.head
	}
	cmp := bytes.Compare(it.t.Key(a.next().ref), it.t.Key(b.next().ref))
	if cmp == 0 {
		// The newer run has the newer versions.
		return a.age > b.age != it.reverse
	}
	return cmp < 0 != it.reverse
}

// Fill implements iter.Source.
func (it *Iter) Fill(b *iter.Batch) error {
	b.N = 0
	if it.err != nil {
		return it.err
	}
	for b.N == 0 && len(it.queue) > 0 {
		it.decode(b, it.collect(min(b.Want, iter.BatchSize)))
	}
	return nil
}

// collect puts the references of the next entries into refs, at most want, and
// returns their number.
func (it *Iter) collect(want int) int {
	n := 0
	for n < want && len(it.queue) > 1 {
		n = it.collectRun(n, want)
	}
	it.paid += int64(n)
	if n == want || len(it.queue) == 0 {
		return n
	}
	c := it.queue[0]
	if it.reverse {
		for ; n < want && c.pos > 0; n++ {
			c.pos--
			it.refs[n] = c.items[c.pos].ref
		}
	} else {
		for _, x := range c.items[c.pos:min(len(c.items), c.pos+want-n)] {
			it.refs[n] = x.ref
			n++
			c.pos++
		}
	}
	if c.done(it.reverse) {
		it.queue = it.queue[:0]
	} else {
		c.setHead()
	}
	return n
}

// collectRun takes entries from the first of several cursors while it stays the
// first.
func (it *Iter) collectRun(n, want int) int {
	c, second := it.queue[0], it.queue[1]
	for n < want {
		it.refs[n] = c.next().ref
		n++
		if c.pos += 1 - 2*int(c.flip&1); c.done(it.reverse) {
			it.queue = append(it.queue[:0], it.queue[1:]...)
			return n
		}
		c.setHead()
		if c.head < second.head {
			continue
		}
		if it.before(second, c) {
			it.rise()
			return n
		}
	}
	return n
}

// decode fills b with the first n entries of refs, except dead ones. It first
// loads the words of all of them and then touches the ends of their keys. No
// load of one step depends on another, so the cache misses overlap.
func (it *Iter) decode(b *iter.Batch, n int) {
	t := it.t
	var entries [iter.BatchSize]entry
	var words [iter.BatchSize]uint64
	for i, r := range it.refs[:n] {
		e := t.arena.at(r)
		entries[i], words[i] = e, e.word()
	}
	touched := uint64(0)
	for i, e := range entries[:n] {
		touched ^= e.keyEnd(words[i])
	}
	it.touched ^= touched
	for j, e := range entries[:n] {
		w := words[j]
		if e.deadWithin(w, it.set.covered) || !it.deletions.Empty() && it.deleted(e, w) {
			continue
		}
		b.Entries[b.N] = base.Entry{Key: e.key(w), Value: e.value(w), Seq: t.seq(e, w), Meta: e.meta(w)}
		b.N++
	}
}

// deleted reports whether a later range deletion of the transaction covers a
// pending entry.
func (it *Iter) deleted(e entry, w uint64) bool {
	mark, _ := it.deletions.At(e.key(w))
	return mark > markOf(e.place())
}
