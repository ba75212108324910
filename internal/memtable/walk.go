package memtable

import (
	"sort"

	"github.com/stoatdb/stoat/internal/base"
)

// Entries calls yield for the newest entry of each key and for the range
// deletions, in the order of their writing, until yield returns false. Keys and
// values are borrowed. The table must not change meanwhile.
func (t *Table) Entries(yield func(base.Entry) bool) {
	t.markDeleted()
	n := t.published.Load()
	for i := uint32(0); i < n; {
		pairs := t.order.span(i, n)
		for _, p := range pairs {
			e := t.arena.at(pairRef(p))
			w := e.word()
			if !t.isNewest(p, e, w) {
				continue
			}
			if !yield(base.Entry{Key: e.key(w), Value: e.value(w), Seq: t.seq(e, w), Meta: e.meta(w)}) {
				return
			}
		}
		i += uint32(len(pairs))
	}
}

// Newer calls visit for the published entries with a sequence number above than,
// the newest first, until visit returns false. hash is the upper half of the
// key's hash; Key returns the key of r. A walk over hashes alone touches no
// entry. For a range deletion, Key returns its first key; NewerDeletions shows
// the range.
func (t *Table) Newer(than base.SeqNum, visit func(hash uint32, r Ref) bool) {
	end := t.published.Load()
	from := t.firstAfter(than, end)
	for end > from {
		pairs := t.order.spanBefore(from, end)
		for i := len(pairs) - 1; i >= 0; i-- {
			if !visit(pairHash(pairs[i]), pairRef(pairs[i])) {
				return
			}
		}
		end -= uint32(len(pairs))
	}
}

// DeletedKeys calls visit for the keys that published entries delete, the newest
// first, until visit returns false. It does not include range deletions: see
// NewerDeletions.
func (t *Table) DeletedKeys(visit func(key []byte) bool) {
	t.Newer(0, func(_ uint32, r Ref) bool {
		e := t.arena.at(r)
		w := e.word()
		return wordKind(w) != base.KindDelete || visit(e.key(w))
	})
}

// firstAfter returns the position of the first of n entries with a sequence
// number above than. It gallops back from the end, where the answer usually is
// and where entries are still cached.
func (t *Table) firstAfter(than base.SeqNum, n uint32) uint32 {
	lo, hi, step := uint32(0), n, uint32(1)
	for hi > 0 {
		probe := hi - min(step, hi)
		if t.seqAt(probe) <= than {
			lo = probe + 1
			break
		}
		hi = probe
		step *= 2
	}
	return lo + uint32(sort.Search(int(hi-lo), func(i int) bool { return t.seqAt(lo+uint32(i)) > than }))
}

// seqAt returns the sequence number of the entry at position i.
func (t *Table) seqAt(i uint32) base.SeqNum {
	e := t.arena.at(pairRef(t.order.at(i)))
	return t.seq(e, e.word())
}

// Key returns the key of an entry that Newer showed, borrowed until Release or
// Reset.
func (t *Table) Key(r Ref) []byte {
	e := t.arena.at(r)
	return e.key(e.word())
}

// LastSeq returns the sequence number of the newest published entry, or 0 if
// there is none.
func (t *Table) LastSeq() base.SeqNum {
	if n := t.published.Load(); n > 0 {
		return t.seqAt(n - 1)
	}
	return 0
}
