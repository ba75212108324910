package model

import (
	"slices"
	"sort"
	"strings"
)

// A Txn is a transaction over a Map: a snapshot, pending writes, and the reads.
// It ends with Commit, or when the caller drops it.
type Txn struct {
	// Seq is the snapshot.
	Seq uint64
	// NowMs is the time for expiry, in milliseconds of Unix time. The caller
	// sets it, because the engine fixes it at a moment of its own choice.
	NowMs uint64

	m       *Map
	write   bool
	pending map[string]Version
	deleted []span // ranges; the pending writes are later
	size    int
	sorted  []Write // the pending writes by key; nil if out of date
	points  map[string]struct{}
	ranges  []span
	open    []*Iterator
	lapse   uint64 // when Lapsed begins; 0 is never
}

// A span is the keys from lo, inclusive, to hi, exclusive.
type span struct {
	lo string
	hi bound
}

func (s span) contains(key string) bool { return key >= s.lo && s.hi.admits(key) }

// empty reports whether no key lies in s.
func (s span) empty() bool { return s.hi.set && s.hi.key <= max(s.lo, "\x00") }

// meets reports whether some key lies in both s and other.
func (s span) meets(other span) bool {
	both := span{max(s.lo, other.lo), s.hi}
	if other.hi.set {
		both.hi = lower(both.hi, other.hi.key)
	}
	return !both.empty()
}

// holds reports whether key lies in one of the spans.
func holds(spans []span, key string) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return s.contains(key) })
}

// A bound is an exclusive upper bound. The zero bound means no end.
type bound struct {
	key string
	set bool
}

func (b bound) admits(key string) bool { return !b.set || key < b.key }

// after returns the first key after key.
func after(key string) string { return key + "\x00" }

// Begin returns a transaction on the snapshot seq.
func (m *Map) Begin(seq uint64, write bool) *Txn {
	return &Txn{Seq: seq, m: m, write: write, pending: make(map[string]Version), points: make(map[string]struct{})}
}

// Write sets or deletes key, as v says.
func (t *Txn) Write(key string, v Version) {
	v.Seq = 0
	if old, ok := t.pending[key]; ok {
		t.size -= len(key) + len(old.Value)
	}
	t.size += len(key) + len(v.Value)
	t.pending[key] = v
	t.sorted = nil
}

// DeleteRange deletes the keys from lo, inclusive, to hi, exclusive. If bounded
// is false, the range has no end.
func (t *Txn) DeleteRange(lo, hi string, bounded bool) {
	s := span{lo, bound{hi, bounded}}
	if s.empty() {
		return
	}
	for key, v := range t.pending {
		if s.contains(key) {
			t.size -= len(key) + len(v.Value)
			delete(t.pending, key)
		}
	}
	t.sorted = nil
	// Copy on append, because iterators keep the older slice.
	t.deleted = append(t.deleted[:len(t.deleted):len(t.deleted)], s)
}

// Dirty reports whether the transaction has pending writes.
func (t *Txn) Dirty() bool { return len(t.pending)+len(t.deleted) > 0 }

// PendingSize returns the bytes of keys and values that are pending.
func (t *Txn) PendingSize() int { return t.size }

// byKey returns the pending writes in key order. The slice never changes,
// because iterators keep it.
func (t *Txn) byKey() []Write {
	if t.sorted == nil {
		t.sorted = make([]Write, 0, len(t.pending))
		for key, v := range t.pending {
			t.sorted = append(t.sorted, Write{key, v})
		}
		slices.SortFunc(t.sorted, func(a, b Write) int { return strings.Compare(a.Key, b.Key) })
	}
	return t.sorted
}

// Get reads one key: the transaction's own write, or the snapshot. Only reads of
// the snapshot can conflict.
func (t *Txn) Get(key string) (Version, bool) {
	if v, ok := t.pending[key]; ok {
		if v.Steps != nil && t.write {
			t.points[key] = struct{}{}
		}
		if v = t.whole(key, v); !v.Live(t.NowMs) {
			return Version{}, false
		}
		return v, true
	}
	if holds(t.deleted, key) {
		return Version{}, false
	}
	if t.write {
		t.points[key] = struct{}{}
	}
	return t.m.Get(key, t.Seq, t.NowMs)
}

// Conflicts reports whether a commit after the snapshot wrote a key that the
// transaction read, or a key in a range that it iterated over. Deleting a range
// counts as a write of all its keys, present or not.
func (t *Txn) Conflicts() bool {
	for _, it := range t.open {
		it.noteRange()
	}
	for seq := t.Seq + 1; seq <= t.m.Last(); seq++ {
		for _, w := range t.m.commits[seq-1] {
			if t.hasRead(w.Key) {
				return true
			}
		}
		if slices.ContainsFunc(t.m.ranges[seq-1], t.hasReadOf) {
			return true
		}
	}
	return false
}

// hasReadOf reports whether the transaction has read a key of s.
func (t *Txn) hasReadOf(s span) bool {
	for key := range t.points {
		if s.contains(key) {
			return true
		}
	}
	return slices.ContainsFunc(t.ranges, s.meets)
}

func (t *Txn) hasRead(key string) bool {
	if _, ok := t.points[key]; ok {
		return true
	}
	return holds(t.ranges, key)
}

// CommitAt is Commit at a time, which all steps of the transaction get.
func (t *Txn) CommitAt(ms uint64) (seq uint64, ok bool) {
	if t.Lapsed(ms) {
		return 0, false
	}
	for key, v := range t.pending {
		if v.Steps != nil {
			v.Steps = v.Steps.at(ms)
			t.pending[key], t.sorted = v, nil
		}
	}
	return t.Commit()
}

// Commit ends the transaction. It returns the number of the commit, 0 if there
// was nothing to write, or false for a conflict.
func (t *Txn) Commit() (seq uint64, ok bool) {
	switch {
	case !t.Dirty():
		return 0, true
	case t.Conflicts():
		return 0, false
	}
	return t.m.commit(t.byKey(), t.deleted), true
}

// ownIndex returns the index of the first write in own with a key >= key.
func ownIndex(own []Write, key string) int {
	return sort.Search(len(own), func(i int) bool { return own[i].Key >= key })
}
