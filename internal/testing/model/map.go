package model

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// A Version is one version of one key.
type Version struct {
	// Seq is the commit that wrote it, or 0 while the commit is pending.
	Seq     uint64
	Value   string
	Deleted bool
	// ExpiresAt is the time from which the version reads as deleted, in
	// milliseconds of Unix time. 0 means never.
	ExpiresAt uint64
	User      byte
	// ByRange marks a range deletion that covers the key. It hides the older
	// versions of the key, and iterators do not show it.
	ByRange bool
	// Steps, if set, are what a transaction merges with an older version: this is no
	// whole version yet. A Steps is never changed.
	Steps *Steps
}

// Live reports whether the version shows a value at nowMs.
func (v Version) Live(nowMs uint64) bool {
	return !v.Deleted && (v.ExpiresAt == 0 || nowMs < v.ExpiresAt)
}

// A Write is a transaction's write of one key.
type Write struct {
	Key string
	Version
}

// An Item is a key with the version that a read shows.
type Item struct {
	Key string
	Version
}

// String formats an item for failure messages.
func (it Item) String() string {
	if it.Deleted {
		return fmt.Sprintf("%q#%d DEL", it.Key, it.Seq)
	}
	s := fmt.Sprintf("%q#%d=%s", it.Key, it.Seq, abbreviate(it.Value))
	if it.ExpiresAt != 0 {
		s += fmt.Sprintf(" until %d", it.ExpiresAt)
	}
	if it.User != 0 {
		s += fmt.Sprintf(" user %d", it.User)
	}
	return s
}

// abbreviate shortens large values in failure messages.
func abbreviate(v string) string {
	if len(v) <= 24 {
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprintf("%q..%d bytes", v[:16], len(v))
}

// A history is the versions of one key, oldest first.
type history struct {
	key      string
	versions []Version
}

// at returns the newest version with a number of at most seq.
func (h *history) at(seq uint64) (Version, bool) {
	// Nearly every read is of a recent snapshot, so search from the newest.
	for i := len(h.versions) - 1; i >= 0; i-- {
		if h.versions[i].Seq <= seq {
			return h.versions[i], true
		}
	}
	return Version{}, false
}

// A Map is a sorted map with its whole past. It is not safe for concurrent use.
type Map struct {
	// Versions is how many versions of a key the database keeps at least, as in
	// its settings. SetVersions changes it.
	Versions int
	// fewer holds the times when Versions grew.
	fewer []fewerVersions

	sorted []*history
	byKey  map[string]*history
	// commits holds the writes of commit i+1 at index i. Commit numbers have no
	// gaps.
	commits [][]Write
	// ranges holds the ranges that commit i+1 deleted at index i.
	ranges [][]span
}

// A fewerVersions says that the database kept fewer versions up to a commit. What it
// dropped then does not come back.
type fewerVersions struct {
	last     uint64 // the newest commit of that time
	versions int
}

// SetVersions changes how many versions of a key the database keeps.
func (m *Map) SetVersions(n int) {
	if n > m.Versions {
		m.fewer = append(m.fewer, fewerVersions{m.Last(), m.Versions})
	}
	m.Versions = n
}

// NewMap returns an empty map.
func NewMap() *Map {
	return &Map{Versions: 1, byKey: make(map[string]*history)}
}

// Last returns the number of the newest commit, or 0 if there is none.
func (m *Map) Last() uint64 { return uint64(len(m.commits)) }

// Len returns the number of keys that ever had a version.
func (m *Map) Len() int { return len(m.sorted) }

// Keys returns every key that ever had a version, ascending.
func (m *Map) Keys() []string {
	keys := make([]string, len(m.sorted))
	for i, h := range m.sorted {
		keys[i] = h.key
	}
	return keys
}

// Writes returns the writes of commit seq.
func (m *Map) Writes(seq uint64) []Write { return m.commits[seq-1] }

// Commit appends the next commit and returns its number. Of several writes to
// one key, the last one counts.
func (m *Map) Commit(writes []Write) uint64 { return m.commit(writes, nil) }

// commit is Commit for a transaction that deleted ranges before its writes.
func (m *Map) commit(writes []Write, ranges []span) uint64 {
	seq := m.Last() + 1
	m.ranges = append(m.ranges, slices.Clone(ranges))
	kept := m.covered(ranges, seq)
	for i, w := range writes {
		if !overwrittenLater(writes, i) {
			if w.Steps != nil {
				w.Version = w.Steps.over(m.older(w.Key, seq))
			}
			w.Seq = seq
			kept = append(kept, w)
		}
	}
	m.commits = append(m.commits, kept)
	for _, w := range kept {
		h := m.historyOf(w.Key)
		h.versions = append(h.versions, w.Version)
	}
	return seq
}

// covered returns the writes that a deletion of ranges makes: one for each key
// in them that has versions. The other writes of the commit come after these.
func (m *Map) covered(ranges []span, seq uint64) (kept []Write) {
	if len(ranges) == 0 {
		return nil
	}
	for _, h := range m.sorted {
		if holds(ranges, h.key) {
			kept = append(kept, Write{h.key, Version{Seq: seq, Deleted: true, ByRange: true}})
		}
	}
	return kept
}

// overwrittenLater is quadratic, so it applies only to short lists. Transactions
// of the model pass each key once.
func overwrittenLater(writes []Write, i int) bool {
	if len(writes) > 64 {
		return false
	}
	for _, later := range writes[i+1:] {
		if later.Key == writes[i].Key {
			return true
		}
	}
	return false
}

func (m *Map) historyOf(key string) *history {
	h := m.byKey[key]
	if h == nil {
		h = &history{key: key}
		m.byKey[key] = h
		m.sorted = slices.Insert(m.sorted, m.search(key), h)
	}
	return h
}

// search returns the index of the first key >= key.
func (m *Map) search(key string) int {
	return sort.Search(len(m.sorted), func(i int) bool { return m.sorted[i].key >= key })
}

// Truncate drops every commit after seq, as a crash drops commits that were not
// acknowledged.
func (m *Map) Truncate(seq uint64) {
	for i := m.Last(); i > seq; i-- {
		for _, w := range m.commits[i-1] {
			h := m.byKey[w.Key]
			h.versions = h.versions[:len(h.versions)-1]
		}
	}
	m.commits, m.ranges = m.commits[:seq], m.ranges[:seq]
	for i := range m.fewer {
		m.fewer[i].last = min(m.fewer[i].last, seq)
	}
	m.sorted = slices.DeleteFunc(m.sorted, func(h *history) bool {
		if len(h.versions) == 0 {
			delete(m.byKey, h.key)
			return true
		}
		return false
	})
}

// Clone returns an independent copy.
func (m *Map) Clone() *Map {
	c := NewMap()
	c.Versions, c.fewer = m.Versions, slices.Clone(m.fewer)
	c.commits, c.ranges = slices.Clone(m.commits), slices.Clone(m.ranges)
	c.sorted = make([]*history, len(m.sorted))
	for i, h := range m.sorted {
		h = &history{key: h.key, versions: slices.Clone(h.versions)}
		c.sorted[i] = h
		c.byKey[h.key] = h
	}
	return c
}

// Newest returns the newest version of key with a number of at most seq, deleted
// and expired ones included.
func (m *Map) Newest(key string, seq uint64) (Version, bool) {
	h := m.byKey[key]
	if h == nil {
		return Version{}, false
	}
	return h.at(seq)
}

// Get returns what a snapshot at seq shows of key at nowMs.
func (m *Map) Get(key string, seq, nowMs uint64) (Version, bool) {
	v, ok := m.Newest(key, seq)
	if !ok || !v.Live(nowMs) {
		return Version{}, false
	}
	return v, true
}

// Scan returns every item that a snapshot at seq shows at nowMs, ascending.
func (m *Map) Scan(seq, nowMs uint64) []Item {
	items := make([]Item, 0, len(m.sorted))
	for _, h := range m.sorted {
		if v, ok := h.at(seq); ok && v.Live(nowMs) {
			items = append(items, Item{h.key, v})
		}
	}
	return items
}

// AllVersions returns every version of every key with a number in
// (since, seq], keys ascending and newest first, deletions included.
func (m *Map) AllVersions(since, seq uint64) []Item {
	var items []Item
	for _, h := range m.sorted {
		for i := len(h.versions) - 1; i >= 0; i-- {
			if v := h.versions[i]; v.Seq <= seq && v.Seq > since {
				items = append(items, Item{h.key, v})
			}
		}
	}
	return items
}

// Diff explains the first difference between two lists of items, or returns ""
// if they are equal.
func Diff(got, want []Item) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(want):
			return fmt.Sprintf("item %d: got %v, want no more", i, got[i])
		case i >= len(got):
			return fmt.Sprintf("item %d: got no more, want %v", i, want[i])
		case got[i] != want[i]:
			return fmt.Sprintf("item %d: got %v, want %v%s", i, got[i], want[i], firstByte(got[i].Value, want[i].Value))
		}
	}
	return ""
}

// firstByte says where two long values differ that begin alike.
func firstByte(got, want string) string {
	if got == want || len(got) < 16 {
		return ""
	}
	if strings.HasPrefix(got, want) || strings.HasPrefix(want, got) {
		return ", one is a prefix of the other"
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf(", first different byte %d", i)
		}
	}
	return ""
}

// VersionsOf returns the versions of a key that the snapshot sees, the newest first.
func (t *Txn) VersionsOf(key string) (all []Version) {
	if h := t.m.byKey[key]; h != nil {
		for i := len(h.versions) - 1; i >= 0; i-- {
			if h.versions[i].Seq <= t.Seq {
				all = append(all, h.versions[i])
			}
		}
	}
	return all
}
