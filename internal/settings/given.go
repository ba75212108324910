package settings

import (
	"math"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
)

const (
	// ValueThresholdMin and ValueThresholdMax bound Given.ValueThreshold, in bytes.
	ValueThresholdMin = 64
	ValueThresholdMax = 1 << 20
	// LargeValueThresholdMax bounds Given.LargeValueThreshold, in bytes. The lower bound
	// is ValueThreshold.
	LargeValueThresholdMax = 1 << 30
	// ChangeRetentionMax bounds Given.ChangeRetention, in bytes.
	ChangeRetentionMax = 1 << 46

	// Thresholds of a new database, in bytes.
	newValueThreshold      = 512
	newLargeValueThreshold = 4 << 10
)

// NoName, as a name, removes the stored name. No function and no filter has it.
const NoName = "none"

// Given has the settings that a caller gives. A field that is zero leaves the stored
// setting alone.
type Given struct {
	ValueThreshold, LargeValueThreshold int64
	Compression                         Compression
	NumVersions                         int
	MergeFunction, Filter               string        // NoName means none
	DefaultTTL                          time.Duration // less than 0 means forever
	ChangeRetention                     int64         // of the default keyspace; less than 0 means none
}

// Validate returns an error about the first field that is set and out of range. owner
// names the struct of the fields.
func (g *Given) Validate(owner string) error {
	outside := func(n, least, most int64) bool { return n != 0 && (n < least || n > most) }
	if outside(g.ValueThreshold, ValueThresholdMin, ValueThresholdMax) {
		return base.Invalid("%s.ValueThreshold is %d, want %d to %d", owner, g.ValueThreshold, ValueThresholdMin, ValueThresholdMax)
	}
	if least := max(g.ValueThreshold, ValueThresholdMin); outside(g.LargeValueThreshold, least, LargeValueThresholdMax) {
		return base.Invalid("%s.LargeValueThreshold is %d, want %d to %d", owner, g.LargeValueThreshold, least, int64(LargeValueThresholdMax))
	}
	if g.Compression > Small {
		return base.Invalid("%s.Compression is %d, want CompressionNone, CompressionFast or CompressionSmall", owner, g.Compression)
	}
	if g.ChangeRetention > ChangeRetentionMax {
		return base.Invalid("%s.ChangeRetention is %d, want at most %d", owner, g.ChangeRetention, int64(ChangeRetentionMax))
	}
	if g.NumVersions < 0 {
		return base.Invalid("%s.NumVersions is %d, want 1 or more", owner, g.NumVersions)
	}
	if n := max(len(g.MergeFunction), len(g.Filter)); n > manifest.SettingNameMax {
		return base.Invalid("%s has a name of %d bytes, want at most %d", owner, n, manifest.SettingNameMax)
	}
	return nil
}

// WithDefaults returns g with the defaults of a new database in fields that are zero.
func (g Given) WithDefaults() Given {
	if g.ValueThreshold == 0 {
		g.ValueThreshold = newValueThreshold
	}
	if g.LargeValueThreshold == 0 {
		g.LargeValueThreshold = max(newLargeValueThreshold, g.ValueThreshold)
	}
	if g.Compression == 0 {
		g.Compression = None
	}
	if g.NumVersions == 0 {
		g.NumVersions = 1
	}
	return g
}

// Store puts the fields of g that are not zero into m.
func (g Given) Store(m *manifest.Settings) {
	if g.ValueThreshold != 0 {
		m.ValueThreshold = uint64(g.ValueThreshold)
	}
	if g.LargeValueThreshold != 0 {
		m.LargeValueThreshold = uint64(g.LargeValueThreshold)
	}
	if g.Compression != 0 {
		m.Compression = uint8(g.Compression)
	}
	if g.NumVersions != 0 {
		m.NumVersions = uint32(min(g.NumVersions, math.MaxInt32)) // more than can be is as good as all
	}
	before := m.MergeFunction
	m.MergeFunction = named(before, g.MergeFunction)
	m.Filter = named(m.Filter, g.Filter)
	if before != "" && m.MergeFunction != before && m.Filter == "" {
		// Compactions may have merged operands that backups still have. As with a filter, keys
		// have other values without new versions, and later backups must have these values.
		m.Filter = NoName
	}
	switch {
	case g.DefaultTTL > 0:
		m.DefaultTTLMs = uint64((g.DefaultTTL-1)/time.Millisecond) + 1
	case g.DefaultTTL < 0:
		m.DefaultTTLMs = 0
	}
	if g.ChangeRetention != 0 {
		m.ChangeRetention = uint64(max(g.ChangeRetention, 0))
	}
}

// named returns the name to store in place of a stored one. NoName takes the place of a
// name, so that the manifest shows that there was one.
func named(stored, given string) string {
	if given == "" || given == NoName && stored == "" {
		return stored
	}
	return given
}

// nameOf returns a stored name, empty if there is none.
func nameOf(stored string) string {
	if stored == NoName {
		return ""
	}
	return stored
}

// FirstKeyspace returns the default keyspace of a new database, with these settings.
func (g Given) FirstKeyspace() *manifest.Keyspace {
	k := new(manifest.Keyspace)
	g.WithDefaults().Store(&k.Settings)
	return k
}

// Changed is the event that the stored settings of a keyspace have changed. The default
// keyspace has no name.
type Changed struct {
	Keyspace string
	Old, New Given
}

// Change puts g into the settings m of a keyspace. A new keyspace gets the defaults of
// a new database.
func (g Given) Change(m *manifest.Settings, isNew bool) error {
	if isNew {
		g = g.WithDefaults()
	}
	g.Store(m)
	if r := Resolve(m); r.LargeValueThreshold < r.ValueThreshold {
		return base.Invalid("with the stored settings, values would be large from %d bytes, and lie apart from %d bytes",
			r.LargeValueThreshold, r.ValueThreshold)
	}
	return nil
}

// Given returns s as a caller would give it.
func (s *Settings) Given() Given {
	return Given{ValueThreshold: s.ValueThreshold, LargeValueThreshold: s.LargeValueThreshold,
		Compression: s.Compression, NumVersions: s.NumVersions, MergeFunction: s.MergeFunction, Filter: s.Filter,
		DefaultTTL: ttlOf(s.DefaultTTLMs), ChangeRetention: s.ChangeRetention}
}

// ttlOf returns a stored time to live. What is longer than a Duration can be is the longest
// Duration.
func ttlOf(ms uint64) time.Duration {
	if ms > math.MaxInt64/uint64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// OfKey returns the settings of the keyspace of a stored key.
func (t *Table) OfKey(stored []byte) *Settings {
	number, err := keyspace.NumberOf(stored)
	if err != nil {
		return t.Default() // damage, which a reader meets
	}
	return t.Of(number)
}
