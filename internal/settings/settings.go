// Package settings has the settings of keyspaces in the form that the engine uses.
// The manifest stores them. Parts of the engine get an Of, and ask it at each use:
// settings may change while the database is open.
package settings

import (
	"cmp"
	"math"
	"slices"
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
	// keyspaces is a table of the manifest, and settings has the settings of each keyspace.
	keyspaces []*manifest.Keyspace
	settings  []*Settings
	// forgotten has keyspaces that readers may see and the manifest does not have any more,
	// by number.
	forgotten map[uint32]forgotten
	// versions is the greatest NumVersions.
	versions int
}

// A forgotten has the settings of a keyspace, and the newest version whose readers may see it.
type forgotten struct {
	settings *Settings
	last     base.SeqNum
}

// Set takes the settings from keyspaces as the manifest has them: ascending by
// number, the default keyspace first. Neither the caller nor the manifest changes them
// later. One caller at a time.
func (t *Table) Set(keyspaces []*manifest.Keyspace) {
	t.current.Store(versionOf(keyspaces, t.current.Load()))
}

// Follow is Set in a database that follows another process. The other process does not know
// the readers here. So Follow keeps the settings of keyspaces that it has forgotten while a
// reader may see them. Readers have versions from oldest to newest. One caller at a time.
func (t *Table) Follow(keyspaces []*manifest.Keyspace, oldest, newest base.SeqNum) {
	old := t.current.Load()
	v := versionOf(keyspaces, old)
	v.forgotten = map[uint32]forgotten{}
	keep := func(number uint32, f forgotten) {
		if f.last >= oldest && v.find(number) == nil {
			v.forgotten[number] = f
		}
	}
	for number, f := range old.forgotten {
		keep(number, f)
	}
	for i, k := range old.keyspaces {
		keep(k.Number, forgotten{settings: old.settings[i], last: newest})
	}
	t.current.Store(v)
}

// versionOf returns the settings from keyspaces. There may be thousands, and each edit changes
// few. So it takes the settings of the others from the version before, which may be nil.
func versionOf(keyspaces []*manifest.Keyspace, before *version) *version {
	if before == nil {
		before = new(version)
	}
	v := &version{keyspaces: keyspaces, settings: make([]*Settings, len(keyspaces))}
	at := 0 // in the version before
	for i, k := range keyspaces {
		for at < len(before.keyspaces) && before.keyspaces[at] != k && before.keyspaces[at].Number < k.Number {
			at++
		}
		if at < len(before.keyspaces) && before.keyspaces[at] == k {
			v.settings[i] = before.settings[at]
			at++
		} else {
			s := Resolve(&k.Settings)
			v.settings[i] = &s
		}
		v.versions = max(v.versions, v.settings[i].NumVersions)
	}
	return v
}

// find returns the settings of a keyspace of the manifest, or nil.
func (v *version) find(number uint32) *Settings {
	// Numbers ascend from 0, so a keyspace is at the index of its number, or before it when the
	// manifest has forgotten some.
	last := min(int(min(number, math.MaxInt32)), len(v.keyspaces)-1)
	if v.keyspaces[last].Number == number {
		return v.settings[last]
	}
	i, ok := slices.BinarySearchFunc(v.keyspaces[:last], number, func(k *manifest.Keyspace, number uint32) int {
		return cmp.Compare(k.Number, number)
	})
	if !ok {
		return nil
	}
	return v.settings[i]
}

// Default returns the settings of the default keyspace.
func (t *Table) Default() *Settings { return t.current.Load().settings[0] }

// Of returns the settings of a keyspace. An unknown keyspace has those of the
// default keyspace.
func (t *Table) Of(keyspace uint32) *Settings {
	v := t.current.Load()
	if keyspace > 0 && !mutant.On(mutant.DefaultSettings) {
		if s := v.find(keyspace); s != nil {
			return s
		}
		if f, ok := v.forgotten[keyspace]; ok {
			return f.settings
		}
	}
	return v.settings[0]
}

// VersionsMax returns the greatest NumVersions of all keyspaces.
func (t *Table) VersionsMax() int { return t.current.Load().versions }
