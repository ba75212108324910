package memtable

import (
	"bytes"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// A rangeLog holds the range deletions of a table that has some. Writing one
// appends its reference to a list. The first reader after that prepares the new
// ones for reading, as it does with new keys.
//
// Deletions of committed transactions are ordered by their sequence numbers.
// Pending ones have no number yet. Their marks take its place; they follow from
// the places in the insertion order. They tell which writes of the same
// transaction came before the deletion.
type rangeLog struct {
	pending bool
	// count is how many deletions of the list are complete.
	count atomic.Uint32
	// list holds the place of each deletion in the insertion order, above its
	// Ref.
	list order
	// marked is how many deletions markDeleted has applied. Only the writer uses
	// it.
	marked uint32

	// The mutex guards stores to prepared; loads need no lock. prepared is the
	// history of the first deletions of the list.
	sync.Mutex
	prepared atomic.Pointer[rangedel.History]
}

// waitingMax is how many deletions may wait for preparation before the writer
// prepares them: about a millisecond of work. So no reader meets many.
const waitingMax = 1 << 10

// always is later than all sequence numbers and marks.
const always = base.SeqNum(math.MaxUint64)

// markOf returns the mark of the pending write at a place. It is also the death
// mark of the entries that the write overwrites or deletes.
func markOf(place uint32) base.SeqNum { return base.SeqNum(place) + 1 }

// len returns the number of range deletions.
func (l *rangeLog) len() int {
	if l == nil {
		return 0
	}
	return int(l.count.Load())
}

// bytes returns roughly how much of the Go heap they take.
func (l *rangeLog) bytes() int64 {
	if l == nil {
		return 0
	}
	return l.prepared.Load().Bytes()
}

// reserveRanges returns the table's log with room for more deletions. It returns
// nil if the table has none and more is 0. A new log becomes the table's only in
// publishRanges.
func (t *Table) reserveRanges(more int, pending bool) (*rangeLog, error) {
	l := t.ranges.Load()
	if more == 0 {
		return l, nil
	}
	if l == nil {
		l = &rangeLog{pending: pending}
		l.list.init(&t.mem, 0)
	}
	invariant.Check(l.pending == pending, "one table has pending and committed range deletions")
	if err := l.list.reserve(uint64(l.len()) + uint64(more)); err != nil {
		t.freeUnused(l)
		return nil, err
	}
	return l, nil
}

// freeUnused frees a log that reserveRanges made and that did not become the
// table's.
func (t *Table) freeUnused(l *rangeLog) {
	if l != t.ranges.Load() {
		l.list.reset(0)
	}
}

// publishRanges makes the first count deletions of l visible. The caller must
// publish the entries afterwards.
func (t *Table) publishRanges(l *rangeLog, count uint32) {
	if l == nil || l.count.Load() == count {
		return
	}
	l.count.Store(count)
	if t.ranges.Load() == nil {
		t.ranges.Store(l)
	}
	if int(count)-l.prepared.Load().Len() >= waitingMax && l.TryLock() {
		t.prepare(l)
		l.Unlock()
	}
}

// dropRanges removes all range deletions.
func (t *Table) dropRanges() {
	if l := t.ranges.Load(); l != nil {
		l.list.reset(0)
		t.ranges.Store(nil)
	}
}

// deleteRange adds a deletion of [lo, hi). An empty hi is the end of all keys.
func (t *Table) deleteRange(lo, hi []byte, hash uint64, seq base.SeqNum) error {
	if err := checkSizes(len(lo), uint64(len(hi))); err != nil {
		return err
	}
	if len(hi) > base.MaxKeySize || len(hi) > 0 && bytes.Compare(lo, hi) >= 0 {
		return fmt.Errorf("memtable: invalid range deletion from %.80q to %.80q", lo, hi)
	}
	if seq < t.last {
		return descends(seq, t.last)
	}
	n := t.published.Load()
	if err := t.reserve(n, 1); err != nil {
		return err
	}
	l, err := t.reserveRanges(1, seq == 0)
	if err != nil {
		return err
	}
	w, raw := rangeWord(len(lo), len(hi)), uint64(seq)
	if seq == 0 {
		w, raw = w|isPending, uint64(n)
	}
	r, e, err := t.arena.alloc(w)
	if err != nil {
		t.freeUnused(l)
		return err
	}
	t.fill(e, w, 0, 0, raw)
	copy(e.key(w), lo)
	copy(e.value(w), hi)
	t.data += int64(len(lo)) + int64(len(hi))
	t.order.set(n, makePair(uint32(hash>>32), r))
	count := uint32(l.len())
	l.list.set(count, makePair(n, r))
	t.deletions.Add(1)
	t.last = seq
	if seq != 0 {
		t.shownData.Store(t.data)
	}
	t.publishRanges(l, count+1)
	t.published.Store(n + 1)
	t.boundTail(n + 1)
	return nil
}

func rangeWord(loLen, hiLen int) uint64 {
	return makeWord(loLen, hiLen, base.Meta{Kind: base.KindDeleteRange}) | isRange
}

// copyRange copies a range deletion.
func (c *copier) copyRange(from entry, fw uint64, hash uint32) error {
	t := c.t
	w := fw &^ isPending
	r, e, err := t.arena.alloc(w)
	if err != nil {
		return err
	}
	t.fill(e, w, 0, 0, uint64(c.seq))
	tail := from.tail(fw)
	copy(e.tail(w), tail)
	c.data += int64(len(tail))
	t.order.set(c.next, makePair(hash, r))
	c.ranges.list.set(c.nextRange, makePair(c.next, r))
	c.next++
	c.nextRange++
	c.deletions++
	return nil
}

// deletion returns deletion number i of the list. Its Seq is the sequence number
// or, for a pending deletion, the mark.
func (t *Table) deletion(l *rangeLog, i uint32) rangedel.Deletion {
	p := l.list.at(i)
	e := t.arena.at(pairRef(p))
	w := e.word()
	d := rangedel.Deletion{Lo: e.key(w), Hi: e.rangeEnd(w), Seq: base.SeqNum(e.rawSeq())}
	if l.pending {
		d.Seq = markOf(uint32(p >> 32))
	}
	return d
}

// history returns the history of all published deletions.
func (t *Table) history(l *rangeLog) *rangedel.History {
	if h := l.prepared.Load(); h.Len() >= l.len() {
		return h
	}
	l.Lock()
	defer l.Unlock()
	return t.prepare(l)
}

// prepare brings the history up to date. The caller holds the mutex of l.
func (t *Table) prepare(l *rangeLog) *rangedel.History {
	h := l.prepared.Load()
	from, to := uint32(h.Len()), uint32(l.len())
	if from == to {
		return h
	}
	more := make([]rangedel.Deletion, 0, to-from)
	for i := from; i < to; i++ {
		more = append(more, t.deletion(l, i))
	}
	h = h.Extend(more)
	l.prepared.Store(h)
	return h
}

// markDeleted marks as dead the pending entries that a later range deletion
// covers. It runs when the transaction commits, because each deletion would have
// to search for the entries.
func (t *Table) markDeleted() {
	l := t.ranges.Load()
	if l == nil || !l.pending || l.marked == l.count.Load() {
		return
	}
	l.marked = l.count.Load()
	h := t.history(l)
	for i := range uint32(l.list.at(l.marked-1) >> 32) {
		e := t.arena.at(pairRef(t.order.at(i)))
		w := e.word()
		if w&isRange != 0 || e.diesAt() != 0 {
			continue
		}
		if mark := h.Cover(e.key(w), always); mark > markOf(i) {
			t.data -= int64(wordKeyLen(w)) + int64(wordValueLen(w))
			t.dead++
			t.keys--
			t.gone++
			e.setDiesAt(uint64(mark))
		}
	}
}

// isDeleted reports whether a range deletion of its own transaction covers a
// pending entry. The entry is the newest of its key.
func (t *Table) isDeleted(e entry, w uint64) bool {
	l := t.ranges.Load()
	switch {
	case l == nil:
		return false
	case t.stamp.Load() != 0:
		return e.diesAt() != 0 // markDeleted ran before Stamp
	}
	return t.history(l).Cover(e.key(w), always) > markOf(e.place())
}

// pendingDeletions makes c a cursor over the marks of the pending deletions
// among the first covered entries. The cursor is empty if there are none, or if
// markDeleted has marked all that they cover.
func (t *Table) pendingDeletions(c *rangedel.Cursor, reverse bool, covered uint32) {
	c.Init(reverse)
	if l := t.ranges.Load(); l != nil && l.pending && t.stamp.Load() == 0 {
		t.history(l).AddTo(c, base.SeqNum(covered), 0)
	}
}

// HasDeletions reports whether there are range deletions.
func (t *Table) HasDeletions() bool { return t.ranges.Load() != nil }

// Cover returns the newest sequence number, at most at, of a range deletion that
// covers key, or 0. It hides the versions of the key with lower numbers, those
// of this table included. Only their own transaction sees pending deletions.
// They have iter.PendingSeq, and Cover returns them whatever at is.
func (t *Table) Cover(key []byte, at base.SeqNum) base.SeqNum {
	l := t.ranges.Load()
	if l == nil {
		return 0
	}
	return t.cover(l, key, at)
}

func (t *Table) cover(l *rangeLog, key []byte, at base.SeqNum) base.SeqNum {
	if !l.pending {
		return t.history(l).Cover(key, at)
	}
	as := t.rangeSeq()
	if as > at && as != iter.PendingSeq || t.history(l).Cover(key, always) == 0 {
		return 0
	}
	return as
}

// rangeSeq returns the sequence number that readers see on the deletions of a
// transaction's table.
func (t *Table) rangeSeq() base.SeqNum {
	if s := t.stamp.Load(); s != 0 {
		return base.SeqNum(s)
	}
	return iter.PendingSeq
}

// AddDeletions adds to a cursor the range deletions that a snapshot at at sees,
// with the same numbers as Cover.
func (t *Table) AddDeletions(c *rangedel.Cursor, at base.SeqNum) {
	l := t.ranges.Load()
	switch {
	case l == nil:
	case !l.pending:
		t.history(l).AddTo(c, at, 0)
	case t.rangeSeq() <= at || t.rangeSeq() == iter.PendingSeq:
		t.history(l).AddTo(c, always, t.rangeSeq())
	}
}

// NewerDeletions calls visit for the range deletions with a sequence number
// above than, the newest first, until visit returns false.
func (t *Table) NewerDeletions(than base.SeqNum, visit func(lo, hi []byte) bool) {
	l := t.ranges.Load()
	for i := uint32(l.len()); i > 0; i-- {
		e := t.arena.at(pairRef(l.list.at(i - 1)))
		w := e.word()
		if t.seq(e, w) <= than || !visit(e.key(w), e.rangeEnd(w)) {
			return
		}
	}
}

// RetainDeletions returns the range deletions of tables that a flush keeps; see
// rangedel.List.Retain. The keys are borrowed until Release or Reset.
func RetainDeletions(tables []*Table, snapshots []base.SeqNum) *rangedel.List {
	var lists []*rangedel.List
	for _, t := range tables {
		if t.HasDeletions() {
			lists = append(lists, t.retainDeletions(snapshots))
		}
	}
	return rangedel.Merge(lists...)
}

// retainDeletions is RetainDeletions of one table.
func (t *Table) retainDeletions(snapshots []base.SeqNum) *rangedel.List {
	l := t.ranges.Load()
	all := make([]rangedel.Deletion, l.len())
	for i := range all {
		all[i] = t.deletion(l, uint32(i))
		if l.pending {
			all[i].Seq = base.SeqNum(t.stamp.Load())
		}
	}
	return rangedel.Retained(all, snapshots)
}
