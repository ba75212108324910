package mixture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/stoatdb/stoat"
)

// A timedState is the content of a timed keyspace since a commit. It never changes.
type timedState struct {
	seq  uint64
	keys map[string][]timedVersion // the versions of each key, the latest timestamp first
}

// A timedVersion is a version of a key at a timestamp.
type timedVersion struct {
	at      uint64
	value   string
	deleted bool
	expires uint64 // in ms since 1970; 0 for never
	user    byte
}

func (v timedVersion) live(now uint64) bool {
	return !v.deleted && (v.expires == 0 || now < v.expires)
}

// String shows the beginning of the value and its length.
func (v timedVersion) String() string {
	return fmt.Sprintf("[%d: %.12q of %d bytes, deleted %v, expires %d, user %d]", v.at, v.value, len(v.value), v.deleted, v.expires, v.user)
}

// timedVersionOf copies an item of the database.
func timedVersionOf(it stoat.Item) (timedVersion, error) {
	v := timedVersion{at: it.Timestamp(), deleted: it.Deleted(), user: it.UserMeta()}
	b, err := it.ValueCopy(nil)
	v.value = string(b)
	if e := it.ExpiresAt(); !e.IsZero() {
		v.expires = uint64(e.UnixMilli())
	}
	return v, err
}

// timedAt returns the content of a timed keyspace in a snapshot.
func (s *space) timedAt(seq uint64) map[string][]timedVersion {
	for i := len(s.states) - 1; i >= 0; i-- {
		if s.states[i].seq <= seq {
			return s.states[i].keys
		}
	}
	return nil
}

// applyTimed applies a commit to the model of a timed keyspace.
func (s *space) applyTimed(writes []write, seq, now uint64) {
	if len(writes) == 0 {
		return
	}
	next := maps.Clone(s.states[len(s.states)-1].keys)
	if next == nil {
		next = map[string][]timedVersion{}
	}
	for _, w := range writes {
		switch w.op {
		case delRange:
			maps.DeleteFunc(next, func(key string, _ []timedVersion) bool { return w.covers(key) })
		case del:
			next[w.key] = withVersion(next[w.key], timedVersion{at: w.at, deleted: true})
		default:
			next[w.key] = withVersion(next[w.key], timedVersion{at: w.at, value: w.value, expires: w.expiresAt(now), user: w.user})
		}
	}
	s.states = append(s.states, timedState{seq, next})
}

// withVersion returns versions with one more, which replaces one of the same timestamp.
func withVersion(all []timedVersion, v timedVersion) []timedVersion {
	i, found := slices.BinarySearchFunc(all, v.at, func(v timedVersion, at uint64) int { return cmp.Compare(at, v.at) })
	all = slices.Clone(all)
	if found {
		all[i] = v
		return all
	}
	return slices.Insert(all, i, v)
}

// discardable reports whether compaction may have removed a version of a key. It may remove
// what no read at the discard point or later shows, unless the point is 0.
func (s *space) discardable(all []timedVersion, v timedVersion, now uint64) bool {
	if v.at > s.discard || s.discard == 0 {
		return false
	}
	latest := all[slices.IndexFunc(all, func(v timedVersion) bool { return v.at <= s.discard })]
	return latest.at != v.at || !latest.live(now)
}

// timedEntries is space.entries for a timed keyspace. While the discard point is 0, expired
// versions stay. Later they may stay above the discard point. Each timestamp of a key may
// keep as many commits as a plain key has versions.
func (s *space) timedEntries(now uint64, versionsMax int) (least, most uint64) {
	for _, all := range s.states[len(s.states)-1].keys {
		for _, v := range all {
			if s.discardable(all, v, now) {
				continue
			}
			most += uint64(versionsMax)
			if v.live(now) {
				least++
			}
		}
	}
	return least, most
}
