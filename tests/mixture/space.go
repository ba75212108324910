package mixture

import (
	"fmt"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
)

// A kind is what a keyspace is made for. It decides which model the keyspace has.
type kind int

const (
	plain    kind = iota // a merge function, versions and expiry
	filtered             // the same, and a compaction filter
	timed                // timestamps of the caller
	kinds                // the number of kinds
)

// A space is one keyspace, from its creation to its drop, and its model.
type space struct {
	name     string
	kind     kind
	id       uint32
	settings settings
	dropped  uint64          // the version of the drop, or 0
	ks       *stoat.Keyspace // the handle; nil for the default keyspace

	history *model.Map // of a plain keyspace
	// candidates has what each key of a filtered keyspace may be, by commit, the oldest first.
	candidates map[string][]candidates
	// states has the contents of a timed keyspace, by commit, the oldest first.
	states  []timedState
	discard uint64 // the discard point of a timed keyspace
}

// settings are the stored settings of a keyspace that decide what reads show.
type settings struct {
	versions int   // NumVersions
	ttlMs    int64 // DefaultTTL, or 0 for none
}

// settingsOf returns the settings that the database reports.
func settingsOf(info stoat.KeyspaceInfo) settings {
	return settings{info.Settings.NumVersions, max(0, info.Settings.DefaultTTL.Milliseconds())}
}

// with returns the settings after a call of DB.Keyspace with options.
func (s settings) with(o *stoat.KeyspaceOptions) settings {
	if o.NumVersions != 0 {
		s.versions = o.NumVersions
	}
	if o.DefaultTTL != 0 {
		s.ttlMs = max(0, o.DefaultTTL.Milliseconds())
	}
	return s
}

// newSpace returns a keyspace that is created after the commit last.
func newSpace(name string, k kind, last uint64) *space {
	s := &space{name: name, kind: k, settings: settings{versions: 1}}
	switch k {
	case plain:
		s.history = model.NewMap()
		for range last {
			s.history.Commit(nil)
		}
	case filtered:
		s.candidates = map[string][]candidates{}
	case timed:
		s.states = []timedState{{}}
	}
	return s
}

// String names the keyspace in errors.
func (s *space) String() string {
	return fmt.Sprintf("keyspace %q (id %d, kind %d)", s.name, s.id, s.kind)
}

// apply applies the writes of commit seq to the model. There may be none of this keyspace.
func (s *space) apply(writes []write, seq, now uint64) error {
	switch s.kind {
	case plain:
		return s.applyPlain(writes, seq, now)
	case filtered:
		s.applyFiltered(writes, seq, now)
	case timed:
		s.applyTimed(writes, seq, now)
	}
	return nil
}

// truncate makes the model forget the commits after seq, which a power cut has taken.
func (s *space) truncate(seq uint64) {
	switch s.kind {
	case plain:
		s.history.Truncate(min(seq, s.history.Last()))
	case filtered:
		for key, all := range s.candidates {
			for len(all) > 0 && all[len(all)-1].seq > seq {
				all = all[:len(all)-1]
			}
			s.candidates[key] = all
		}
	case timed:
		for len(s.states) > 1 && s.states[len(s.states)-1].seq > seq {
			s.states = s.states[:len(s.states)-1]
		}
	}
}

// entries returns how many entries tables need after a deep compaction, at least and at
// most. Any keyspace may keep up to versionsMax versions, because a table with keys of
// several keyspaces keeps as many as the one with the greatest NumVersions.
func (s *space) entries(now uint64, versionsMax int) (least, most uint64) {
	switch s.kind {
	case plain:
		return s.plainEntries(now, versionsMax)
	case filtered:
		return s.filteredEntries(now, versionsMax)
	}
	return s.timedEntries(now, versionsMax)
}
