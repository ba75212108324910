// Package settings has the settings of keyspaces in the form that the engine uses.
// The manifest stores them. Parts of the engine get an Of, and ask it at each use:
// settings may change while the database is open.
package settings

import (
	"math"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
)

// Settings are the rules for the entries of one keyspace. They are immutable.
type Settings struct {
	// NumVersions is how many versions of a key stay at least.
	NumVersions int
	Compression Compression
	// ValueThreshold is the length in bytes from which values lie in value files.
	ValueThreshold int64
	// LargeValueThreshold is the length in bytes from which a commit may write a
	// value straight to a value file.
	LargeValueThreshold int64
	// MergeFunction and Filter are names, empty if there is none.
	MergeFunction, Filter string
	// DefaultTTLMs is the time to live of values without their own expiry time, in
	// milliseconds; 0 is forever.
	DefaultTTLMs uint64
	// ChangeRetention is the number of bytes of the log that stay for feeds. Only the
	// default keyspace has it.
	ChangeRetention int64
}

// Of returns the settings of a keyspace. The default keyspace is number 0.
type Of func(keyspace uint32) *Settings

// A Walk tells the settings for stored keys. It asks Of only when the keyspace
// changes, so it is for one job, whose keys ascend. One goroutine uses it at a time.
type Walk struct {
	Of      Of
	walk    keyspace.Walk
	number  uint32
	current *Settings
}

// At returns the settings for a stored key.
func (w *Walk) At(key []byte) *Settings {
	if n := w.walk.Number(key); n != w.number || w.current == nil {
		w.number, w.current = n, w.Of(n)
	}
	return w.current
}

const (
	// Settings that are not stored, in bytes. These numbers belong to the format:
	// another number would change old databases.
	unsetValueThreshold      = 512
	unsetLargeValueThreshold = 4 << 10
)

// Resolve returns the settings of a keyspace that stores m. It fills in fields that m
// does not set.
func Resolve(m *manifest.Settings) Settings {
	s := Settings{
		NumVersions: int(min(m.NumVersions, math.MaxInt32)), Compression: Compression(m.Compression),
		ValueThreshold: int64(m.ValueThreshold), LargeValueThreshold: int64(m.LargeValueThreshold),
		MergeFunction: nameOf(m.MergeFunction), Filter: nameOf(m.Filter),
		DefaultTTLMs: m.DefaultTTLMs, ChangeRetention: int64(min(m.ChangeRetention, ChangeRetentionMax)),
	}
	if s.NumVersions == 0 {
		s.NumVersions = 1
	}
	if s.Compression == 0 {
		s.Compression = None
	}
	if s.ValueThreshold == 0 {
		s.ValueThreshold = unsetValueThreshold
	}
	if s.LargeValueThreshold == 0 {
		s.LargeValueThreshold = max(unsetLargeValueThreshold, s.ValueThreshold)
	}
	return s
}

// Compression says how values are compressed. The numbers are part of the format.
type Compression uint8

// The compressions, as in package stoat.
const (
	None Compression = iota + 1
	Fast
	Small
)

// OfValues returns the codec of values in value files. Values stay in the value
// file that they were first written to, so they use the final codec at once.
func (c Compression) OfValues() codec.ID {
	switch c {
	case Fast:
		return codec.S2
	case Small:
		return codec.Zstd
	}
	return codec.None
}

// OfTables returns the codec of values in tables of a level. Merges soon rewrite
// tables above the last level, so those use the fast codec.
func (c Compression) OfTables(level int) codec.ID {
	if c == Small && level < manifest.Levels-1 {
		return codec.S2
	}
	return c.OfValues()
}

// A Table holds the settings of all keyspaces of an open database. Of is safe for
// concurrent use.
type Table struct{ current atomic.Pointer[version] }

// A version is one content of a Table. It is immutable.
type version struct {
	first  Settings // of the default keyspace
	others map[uint32]*Settings
	// forgotten has the newest version whose readers may see a keyspace, by number. Only
	// keyspaces of others are in it that the manifest does not have any more.
	forgotten map[uint32]base.SeqNum
	// versions is the greatest NumVersions.
	versions int
}

// Set takes the settings from keyspaces as the manifest has them: ascending by
// number, the default keyspace first.
func (t *Table) Set(keyspaces []*manifest.Keyspace) { t.current.Store(versionOf(keyspaces)) }

// Follow is Set in a database that follows another process. The other process does not know
// the readers here. So Follow keeps the settings of keyspaces that it has forgotten while a
// reader may see them. Readers have versions from oldest to newest. One caller at a time.
func (t *Table) Follow(keyspaces []*manifest.Keyspace, oldest, newest base.SeqNum) {
	old, v := t.current.Load(), versionOf(keyspaces)
	v.forgotten = map[uint32]base.SeqNum{}
	for number, s := range old.others {
		if v.others[number] != nil {
			continue
		}
		last, ok := old.forgotten[number]
		if !ok {
			last = newest
		}
		if last >= oldest {
			v.others[number], v.forgotten[number] = s, last
		}
	}
	t.current.Store(v)
}

// versionOf returns the settings from keyspaces.
func versionOf(keyspaces []*manifest.Keyspace) *version {
	v := &version{first: Resolve(&keyspaces[0].Settings), others: make(map[uint32]*Settings, len(keyspaces)-1)}
	v.versions = v.first.NumVersions
	for _, k := range keyspaces[1:] {
		s := Resolve(&k.Settings)
		v.others[k.Number] = &s
		v.versions = max(v.versions, s.NumVersions)
	}
	return v
}

// Default returns the settings of the default keyspace.
func (t *Table) Default() *Settings { return &t.current.Load().first }

// Of returns the settings of a keyspace. An unknown keyspace has those of the
// default keyspace.
func (t *Table) Of(keyspace uint32) *Settings {
	v := t.current.Load()
	if keyspace > 0 && !mutant.On(mutant.DefaultSettings) {
		if s := v.others[keyspace]; s != nil {
			return s
		}
	}
	return &v.first
}

// VersionsMax returns the greatest NumVersions of all keyspaces.
func (t *Table) VersionsMax() int { return t.current.Load().versions }
