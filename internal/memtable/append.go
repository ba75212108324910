package memtable

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// appendBlock is how many entries AppendTable handles at a time. It touches the
// index slots of a whole block first, so that their cache misses overlap.
const appendBlock = 64

// AppendTable copies the newest entry of each key of src, and its range
// deletions, under the sequence number seq. src must not change meanwhile. fold, which
// may be nil, folds every foldEvery-th version of a key if it is partial. If AppendTable
// fails, t is unchanged.
func (t *Table) AppendTable(src *Table, seq base.SeqNum, fold Fold) error {
	invariant.Check(src != t, "AppendTable of a table to itself")
	if seq < max(t.last, 1) {
		return descends(seq, t.last)
	}
	src.markDeleted()
	n := t.published.Load()
	count := src.keys + uint64(src.ranges.Load().len())
	if err := t.reserve(n, count); err != nil {
		return err
	}
	ranges, err := t.reserveRanges(src.ranges.Load().len(), false)
	if err != nil {
		return err
	}
	c := copier{t: t, src: src, seq: seq, fold: fold, next: n, ranges: ranges, nextRange: uint32(ranges.len())}
	mark := t.arena.mark()
	if err := src.eachBlock(c.copyBlock); err != nil {
		t.arena.rollback(mark)
		t.freeUnused(ranges)
		return err
	}
	invariant.Check(uint64(c.next-n) == count, "copied %d entries of %d", c.next-n, count)
	if ix := t.index.Load(); ix != nil {
		t.link(ix, n, c.next)
	}
	t.keys += c.fresh
	t.data += c.data
	t.shownData.Store(t.data)
	if c.deletions > 0 {
		t.deletions.Add(c.deletions)
	}
	t.last = seq
	t.publishRanges(ranges, c.nextRange)
	t.published.Store(c.next)
	t.boundTail(c.next)
	return nil
}

// eachBlock calls visit for the whole insertion order, block by block.
func (t *Table) eachBlock(visit func(pairs []pair) error) error {
	n := t.published.Load()
	for i := uint32(0); i < n; {
		pairs := t.order.span(i, min(n, i+appendBlock))
		if err := visit(pairs); err != nil {
			return err
		}
		i += uint32(len(pairs))
	}
	return nil
}

// A copier copies entries into the arena and the unpublished part of the
// insertion order of t. AppendTable updates the index after the copier has
// copied all entries.
type copier struct {
	t, src *Table
	seq    base.SeqNum
	fold   Fold
	next   uint32
	fresh  uint64
	data   int64
	// deletions counts the copied deletions of keys and ranges.
	deletions uint64
	// ranges receives the range deletions, the next one at nextRange.
	ranges    *rangeLog
	nextRange uint32
}

func (c *copier) copyBlock(pairs []pair) error {
	if ix := c.t.index.Load(); ix != nil {
		for _, p := range pairs {
			c.t.touched ^= ix.touch(pairHash(p))
		}
	}
	for _, p := range pairs {
		e := c.src.arena.at(pairRef(p))
		w := e.word()
		if !c.src.isNewest(p, e, w) {
			continue
		}
		if w&isRange != 0 {
			if err := c.copyRange(e, w, pairHash(p)); err != nil {
				return err
			}
			continue
		}
		if err := c.copyEntry(e, w, pairHash(p)); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) copyEntry(from entry, fw uint64, hash uint32) error {
	t := c.t
	old := t.find(from.key(fw), hash)
	w, expiry, tail, whole := fw&^(isPending|hasOlder), from.expiry(fw), from.tail(fw), []byte(nil)
	if wordKind(fw).Partial() {
		if value, m, ok := c.folded(from, fw, old); ok {
			whole, tail = value, from.key(fw)
			w, expiry = makeWord(len(tail), len(whole), m), m.ExpiresAt
		} else {
			t.notePartial(from.key(fw), old)
		}
	}
	if old != 0 {
		w |= hasOlder
	} else {
		c.fresh++
	}
	r, e, err := t.arena.alloc(w)
	if err != nil {
		return err
	}
	t.fill(e, w, old, expiry, uint64(c.seq))
	copy(e.tail(w)[copy(e.tail(w), tail):], whole)
	c.data += int64(len(tail)) + int64(len(whole))
	if wordKind(w) == base.KindDelete {
		c.deletions++
	}
	t.order.set(c.next, makePair(hash, r))
	c.next++
	return nil
}

// isNewest reports whether the entry e, whose pair is p, is the newest version
// of its key, or a range deletion.
func (t *Table) isNewest(p pair, e entry, w uint64) bool {
	if w&isRange != 0 {
		return true
	}
	if w&isPending != 0 && e.diesAt() != 0 {
		return false
	}
	if t.keys+uint64(t.ranges.Load().len()) == uint64(t.published.Load()-t.dead) {
		return true
	}
	return t.find(e.key(w), pairHash(p)) == pairRef(p)
}

// link publishes the entries at positions n to end (exclusive) in the index.
func (t *Table) link(ix *index, n, end uint32) {
	for n < end {
		pairs := t.order.span(n, min(end, n+appendBlock))
		for _, p := range pairs {
			t.touched ^= ix.touch(pairHash(p))
		}
		for _, p := range pairs {
			if e := t.arena.at(pairRef(p)); e.isPoint() {
				ix.put(p, e.links(e.word()).next)
			}
		}
		n += uint32(len(pairs))
	}
}
