package timestamps

import (
	"maps"
	"slices"
	"strings"
)

// A version is what one key has at one timestamp.
type version struct {
	key     string
	at      uint64
	value   string
	deleted bool
	expires uint64 // in ms of Unix time, 0 for never
	user    byte
}

// A modelSpace is a keyspace: the versions of each key, the latest first.
type modelSpace map[string][]version

// clone returns a copy that later writes do not change.
func (m modelSpace) clone() modelSpace {
	c := maps.Clone(m)
	for key, all := range c {
		c[key] = slices.Clone(all)
	}
	return c
}

// put adds a version, or replaces the one at the same timestamp.
func (m modelSpace) put(v version) {
	all := m[v.key]
	i, found := slices.BinarySearchFunc(all, v.at, func(v version, at uint64) int {
		switch {
		case v.at > at:
			return -1
		case v.at < at:
			return 1
		}
		return 0
	})
	if found {
		all[i] = v
		return
	}
	m[v.key] = slices.Insert(all, i, v)
}

// purge removes all versions of the keys in [lo, hi). An empty hi is no bound.
func (m modelSpace) purge(lo, hi string) {
	maps.DeleteFunc(m, func(key string, _ []version) bool { return key >= lo && (hi == "" || key < hi) })
}

// find returns the version that key has at a timestamp.
func (m modelSpace) find(key string, at, now uint64) (version, bool) {
	for _, v := range m[key] {
		if v.at <= at {
			return v, !v.deleted && (v.expires == 0 || now < v.expires)
		}
	}
	return version{}, false
}

// A query is a scan at a timestamp.
type query struct {
	at             uint64
	lo, hi, prefix string // hi empty is no bound
	reverse, all   bool
}

// scan returns what the query shows.
func (m modelSpace) scan(q query, now uint64) (shown []version) {
	keys := slices.Sorted(maps.Keys(m))
	for _, key := range keys {
		if key < q.lo || q.hi != "" && key >= q.hi || !strings.HasPrefix(key, q.prefix) {
			continue
		}
		if !q.all {
			if v, ok := m.find(key, q.at, now); ok {
				shown = append(shown, v)
			}
			continue
		}
		for _, v := range m[key] {
			if v.at <= q.at {
				shown = append(shown, v)
			}
		}
	}
	if q.reverse {
		slices.Reverse(shown)
	}
	return shown
}

// discardable returns whether version v of m may be gone when the discard point is
// floor. Versions before the latest one up to the point may, and so may that one if it
// has no value.
func (m modelSpace) discardable(v version, floor, now uint64) bool {
	if v.at > floor {
		return false
	}
	latest, live := m.find(v.key, floor, now)
	return latest.at != v.at || !live
}
