package memtable

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
)

// A partialSpan bounds the keys of a table's partial entries, both inclusive. It is
// immutable.
type partialSpan struct{ lo, hi []byte }

// foldEvery is how many versions of a key a table may have between two whole ones, if the
// committer can fold. So a reader collects at most this many partial entries from one
// table.
const foldEvery = 64

// A Fold makes a whole entry of a partial one, which is about to become the newest
// version of its key. The result is that of the same version. It reports false to
// keep the partial entry.
type Fold func(key, value []byte, k base.Kind) (whole []byte, m base.Meta, ok bool)

// notePartial notes the key of a new partial entry. older is the next older version of the
// key in the table, or 0.
func (t *Table) notePartial(key []byte, older Ref) {
	if older != 0 && wordKind(t.arena.at(older).word()).Partial() {
		return // which has noted the key
	}
	t.partialKeys.Add(1)
	s := t.partials.Load()
	switch {
	case s == nil:
		k := bytes.Clone(key)
		t.partials.Store(&partialSpan{k, k})
	case bytes.Compare(key, s.lo) < 0:
		t.partials.Store(&partialSpan{bytes.Clone(key), s.hi})
	case bytes.Compare(key, s.hi) > 0:
		t.partials.Store(&partialSpan{s.lo, bytes.Clone(key)})
	}
}

// Partials returns bounds of the keys that have partial entries, both inclusive, and a
// number that is no less than the number of these keys. keys is 0 if there are none.
func (t *Table) Partials() (lo, hi []byte, keys uint64) {
	s := t.partials.Load()
	if s == nil {
		return nil, nil, 0
	}
	return s.lo, s.hi, max(1, t.partialKeys.Load())
}

// Versions calls visit for the versions of key with a sequence number of at most at, the
// newest first, until visit returns false. It is Get for all of them.
func (t *Table) Versions(key []byte, hash uint64, at base.SeqNum, visit func(value []byte, m base.Meta, seq base.SeqNum) bool) {
	r := t.find(key, uint32(hash>>32))
	if r == 0 {
		return
	}
	e := t.arena.at(r)
	w := e.word()
	if w&isPending != 0 && t.isDeleted(e, w) {
		return
	}
	if t.seq(e, w) > at {
		if e, w = t.visibleAt(e, at); e.p == nil {
			return
		}
	}
	for visit(e.value(w), e.meta(w), t.seq(e, w)) {
		next := e.links(w).next
		if next == 0 {
			return
		}
		e = t.arena.at(next)
		w = e.word()
	}
}

// HasPartial reports whether key has a partial entry.
func (t *Table) HasPartial(key []byte, hash uint64) (has bool) {
	if s := t.partials.Load(); s == nil || bytes.Compare(key, s.lo) < 0 || bytes.Compare(key, s.hi) > 0 {
		return false
	}
	t.Versions(key, hash, base.SeqNumMax, func(_ []byte, m base.Meta, _ base.SeqNum) bool {
		has = m.Kind.Partial()
		return !has
	})
	return has
}

// folded returns the whole entry in place of a partial one that is copied over the
// version old, if it is time for that. After an attempt that failed, the chain must become
// twice as long before the next one, which takes longer with each version.
func (c *copier) folded(from entry, fw uint64, old Ref) (whole []byte, m base.Meta, ok bool) {
	if c.fold == nil || old == 0 || !c.foldDue(old) {
		return nil, m, false
	}
	whole, m, ok = c.fold(from.key(fw), from.value(fw), wordKind(fw))
	return whole, m, ok && checkSizes(wordKeyLen(fw), uint64(len(whole))) == nil
}

// foldDue reports whether it is time to fold a partial entry over the version old.
func (c *copier) foldDue(old Ref) bool {
	n := c.t.arena.linksTo(old).depth + 1
	if n%foldEvery != 0 {
		return false
	}
	if turn := n / foldEvery; turn&(turn-1) == 0 {
		return true
	}
	r := old
	for range foldEvery { // to the version of the attempt before
		e := c.t.arena.at(r)
		w := e.word()
		if !wordKind(w).Partial() {
			return true
		}
		r = e.links(w).next
	}
	return false
}
