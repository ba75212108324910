package salvage

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/stamp"
)

// spaces are the keyspaces of the new database.
type spaces struct {
	// known are those of the manifest, or of its readable part.
	known map[uint32]*manifest.Keyspace
	whole bool // the manifest knows all keyspaces
	seen  map[uint32]*seenSpace
	names map[string]bool
}

// A seenSpace is what the entries of a keyspace tell about it.
type seenSpace struct {
	m *manifest.Keyspace
	// stamped says that all keys have timestamps.
	stamped bool
}

func newSpaces(state *manifest.State, whole bool) *spaces {
	s := &spaces{known: map[uint32]*manifest.Keyspace{}, whole: whole, seen: map[uint32]*seenSpace{}, names: map[string]bool{}}
	for _, k := range state.Keyspaces {
		s.known[k.Number] = k
		if !k.Dropping {
			s.names[k.Name] = true
		}
	}
	return s
}

// dropped reports whether the entries of a keyspace are garbage.
func (s *spaces) dropped(number uint32) bool {
	k := s.known[number]
	return k != nil && k.Dropping || k == nil && s.whole && number > 0
}

// named returns a keyspace. One that the manifest does not name gets a name.
func (s *spaces) named(number uint32) *manifest.Keyspace {
	if k := s.known[number]; k != nil {
		return k
	}
	if seen := s.seen[number]; seen != nil {
		return seen.m
	}
	k := &manifest.Keyspace{Number: number}
	for try := 1; number > 0 && (k.Name == "" || s.names[k.Name]); try++ {
		if k.Name = fmt.Sprintf("keyspace-%d", number); try > 1 {
			k.Name = fmt.Sprintf("keyspace-%d-%d", number, try)
		}
	}
	return k
}

// note notes an entry of a keyspace. key is the user's key. It fails if there are too
// many keyspaces.
func (s *spaces) note(number uint32, key []byte) error {
	if s.known[number] != nil || number == 0 {
		return nil
	}
	seen := s.seen[number]
	if seen == nil {
		if len(s.known)+len(s.seen)+1 >= manifest.KeyspacesMax {
			return base.Corrupt(-1, "keyspaces", "more", fmt.Sprintf("at most %d", manifest.KeyspacesMax))
		}
		seen = &seenSpace{m: s.named(number), stamped: true}
		s.seen[number], s.names[seen.m.Name] = seen, true
	}
	if seen.stamped {
		_, _, seen.stamped = stamp.Decode(key, nil)
	}
	return nil
}

// timed reports whether the keys of a keyspace have timestamps, as far as is known.
func (s *spaces) timed(number uint32) bool {
	if k := s.known[number]; k != nil {
		return k.Timed()
	}
	seen := s.seen[number]
	return seen != nil && seen.stamped
}

// table returns the keyspaces of the new database, ascending. The default one is first.
func (s *spaces) table(report *Report) []*manifest.Keyspace {
	all := []*manifest.Keyspace{}
	for _, k := range s.known {
		if !k.Dropping {
			all = append(all, k)
		}
	}
	if s.known[0] == nil {
		all = append(all, &manifest.Keyspace{})
		report.note("the settings of the default keyspace are lost: it has the defaults")
	}
	for number, seen := range s.seen {
		kind := ""
		if seen.stamped {
			seen.m.Settings.Timestamps = manifest.TimestampsChecked
			kind = ", with timestamps"
		}
		report.note(fmt.Sprintf("the name and the settings of keyspace %d are lost: it is now %q%s", number, seen.m.Name, kind))
		all = append(all, seen.m)
	}
	slices.SortFunc(all, func(a, b *manifest.Keyspace) int { return cmp.Compare(a.Number, b.Number) })
	slices.Sort(report.Notes)
	return all
}
