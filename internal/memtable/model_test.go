package memtable

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/stoatdb/stoat/internal/base"
)

// A version is one entry of the model.
type version struct {
	key, value string
	meta       base.Meta
	seq        base.SeqNum
	place      int // in the insertion order
}

// A model is the simplest table: all versions in a slice.
type model struct {
	versions []version
	pending  bool // all versions are pending; stamp is their number
	stamp    base.SeqNum
}

func (m *model) set(key, value []byte, meta base.Meta, seq base.SeqNum) {
	if m.pending {
		m.versions = slices.DeleteFunc(m.versions, func(v version) bool { return v.key == string(key) })
	}
	m.versions = append(m.versions, version{string(key), string(value), meta, seq, len(m.versions)})
	if m.pending {
		for i := range m.versions {
			m.versions[i].place = i
		}
	}
}

// newest returns the newest version of each key, in the order of insertion.
func (m *model) newest() []version {
	last := map[string]int{}
	for i, v := range m.versions {
		last[v.key] = i
	}
	var out []version
	for i, v := range m.versions {
		if last[v.key] == i {
			out = append(out, v)
		}
	}
	return out
}

func (m *model) get(key []byte, at base.SeqNum) (version, bool) {
	for i := len(m.versions) - 1; i >= 0; i-- {
		if v := m.versions[i]; v.key == string(key) && m.seq(v) <= at {
			return v, true
		}
	}
	return version{}, false
}

func (m *model) seq(v version) base.SeqNum {
	if m.pending {
		return m.stamp
	}
	return v.seq
}

// sorted returns all versions in the order of forward iteration.
func (m *model) sorted() []version {
	out := slices.Clone(m.versions)
	slices.SortFunc(out, func(a, b version) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		return cmp.Compare(b.place, a.place)
	})
	return out
}

// scan returns what an iterator shows after Seek(key).
func (m *model) scan(key []byte, reverse bool) []version {
	all := m.sorted()
	at := sort.Search(len(all), func(i int) bool { return all[i].key >= string(key) })
	switch {
	case key == nil && reverse:
		at = len(all)
	case key == nil:
		at = 0
	}
	if !reverse {
		return all[at:]
	}
	out := slices.Clone(all[:at])
	slices.Reverse(out)
	return out
}

// same reports how an entry differs from a version of the model.
func (m *model) same(v version, key, value []byte, meta base.Meta, seq base.SeqNum) error {
	switch {
	case v.key != string(key):
		return fmt.Errorf("key %q, want %q", key, v.key)
	case !bytes.Equal([]byte(v.value), value):
		return fmt.Errorf("value of %q is %.40q, want %.40q", key, value, v.value)
	case v.meta != meta:
		return fmt.Errorf("meta of %q is %+v, want %+v", key, meta, v.meta)
	case m.seq(v) != seq:
		return fmt.Errorf("sequence number of %q is %d, want %d", key, seq, m.seq(v))
	}
	return nil
}
