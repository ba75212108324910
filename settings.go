package stoat

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/settings"
)

// Settings are what a database stores about itself: which entries it keeps, and how
// it stores them. They hold for each program that opens the database, whatever its
// Options leave out.
type Settings struct {
	// ValueThreshold and LargeValueThreshold are lengths of values in bytes, as
	// described in Options.
	ValueThreshold, LargeValueThreshold int64
	// Compression says how the database compresses values.
	Compression Compression
	// NumVersions is how many versions of a key the database keeps at least.
	NumVersions int
	// MergeFunction and Filter are the names of the merge function and of the filter
	// of compactions, empty if there is none.
	MergeFunction, Filter string
	// DefaultTTL is how long a value lives if its Set names no time of expiry. 0 means
	// forever.
	DefaultTTL time.Duration
}

// Settings returns the settings that are in force.
func (d *DB) Settings() Settings { return publicSettings(d.settings.Of(0)) }

func publicSettings(s *settings.Settings) Settings {
	return Settings{ValueThreshold: s.ValueThreshold, LargeValueThreshold: s.LargeValueThreshold,
		Compression: Compression(s.Compression), NumVersions: s.NumVersions,
		MergeFunction: s.MergeFunction, Filter: s.Filter,
		DefaultTTL: time.Duration(s.DefaultTTLMs) * time.Millisecond}
}

// settings returns the settings among the options. Those that the caller left out
// are zero.
func (o *Options) settings() Settings {
	return Settings{ValueThreshold: o.ValueThreshold, LargeValueThreshold: o.LargeValueThreshold,
		Compression: o.Compression, NumVersions: o.NumVersions, MergeFunction: o.MergeFunction, Filter: o.Filter,
		DefaultTTL: o.DefaultTTL}
}

// validate returns an error about the first field that is set and out of range. owner
// names the struct of the fields.
func (s *Settings) validate(owner string) error {
	outside := func(n, least, most int64) bool { return n != 0 && (n < least || n > most) }
	if outside(s.ValueThreshold, valueThresholdMin, valueThresholdMax) {
		return invalid("%s.ValueThreshold is %d, want %d to %d", owner, s.ValueThreshold, valueThresholdMin, valueThresholdMax)
	}
	if least := max(s.ValueThreshold, valueThresholdMin); outside(s.LargeValueThreshold, least, largeValueThresholdMax) {
		return invalid("%s.LargeValueThreshold is %d, want %d to %d", owner, s.LargeValueThreshold, least, int64(largeValueThresholdMax))
	}
	if s.Compression > CompressionSmall {
		return invalid("%s.Compression is %d, want CompressionNone, CompressionFast or CompressionSmall", owner, s.Compression)
	}
	if s.NumVersions < 0 {
		return invalid("%s.NumVersions is %d, want 1 or more", owner, s.NumVersions)
	}
	if n := max(len(s.MergeFunction), len(s.Filter)); n > manifest.SettingNameMax {
		return invalid("%s has a name of %d bytes, want at most %d", owner, n, manifest.SettingNameMax)
	}
	return nil
}

// withDefaults returns s with the defaults of a new database in fields that are zero.
func (s Settings) withDefaults() Settings {
	if s.ValueThreshold == 0 {
		s.ValueThreshold = valueThresholdDefault
	}
	if s.LargeValueThreshold == 0 {
		s.LargeValueThreshold = max(largeValueThresholdDefault, s.ValueThreshold)
	}
	if s.Compression == 0 {
		s.Compression = CompressionNone
	}
	if s.NumVersions == 0 {
		s.NumVersions = 1
	}
	return s
}

// store puts the fields of s that are not zero into m.
func (s Settings) store(m *manifest.Settings) {
	if s.ValueThreshold != 0 {
		m.ValueThreshold = uint64(s.ValueThreshold)
	}
	if s.LargeValueThreshold != 0 {
		m.LargeValueThreshold = uint64(s.LargeValueThreshold)
	}
	if s.Compression != 0 {
		m.Compression = uint8(s.Compression)
	}
	if s.NumVersions != 0 {
		m.NumVersions = uint32(min(s.NumVersions, math.MaxInt32)) // more than can be is as good as all
	}
	if s.MergeFunction != "" {
		m.MergeFunction = s.MergeFunction
	}
	if s.Filter != "" {
		m.Filter = s.Filter
	}
	switch {
	case s.DefaultTTL > 0:
		m.DefaultTTLMs = uint64((s.DefaultTTL-1)/time.Millisecond) + 1
	case s.DefaultTTL < 0:
		m.DefaultTTLMs = 0
	}
}

// change is spaces.Change for settings that a caller gives. A new keyspace gets the
// defaults of a new database.
func (s Settings) change(m *manifest.Settings, isNew bool) error {
	if isNew {
		s = s.withDefaults()
	}
	s.store(m)
	if r := settings.Resolve(m); r.LargeValueThreshold < r.ValueThreshold {
		return invalid("with the stored settings of the keyspace, values would be large from %d bytes, and lie apart from %d bytes",
			r.LargeValueThreshold, r.ValueThreshold)
	}
	return nil
}

// firstKeyspace returns the default keyspace of a new database.
func (o *Options) firstKeyspace() *manifest.Keyspace {
	k := new(manifest.Keyspace)
	o.settings().withDefaults().store(&k.Settings)
	return k
}

// chooseSettings puts the settings in force: the stored ones, with the changes that
// the options demand. It returns the default keyspace as it must be stored, or nil if
// it is stored so. A read-only open changes nothing.
func (d *DB) chooseSettings(s *manifest.State) (change *manifest.Keyspace, err error) {
	keyspaces := append([]*manifest.Keyspace(nil), s.Keyspaces...)
	next := *keyspaces[0]
	if !d.opts.ReadOnly {
		given := d.opts.settings()
		if mutant.On(mutant.ForgetSettings) {
			given = given.withDefaults()
		}
		given.store(&next.Settings)
	}
	r := settings.Resolve(&next.Settings)
	if d.upgrade != nil {
		d.upgrade.Was = formatOf(*s)
		before := next.Settings
		publicSettings(&r).store(&next.Settings)
		d.upgrade.StoredSettings = next.Settings != before
	}
	if r.LargeValueThreshold < r.ValueThreshold {
		return nil, invalid("Options.ValueThreshold is %d and Options.LargeValueThreshold is %d; "+
			"with the stored settings, values would be large from %d bytes, and lie apart from %d bytes",
			d.opts.ValueThreshold, d.opts.LargeValueThreshold, r.LargeValueThreshold, r.ValueThreshold)
	}
	if next != *keyspaces[0] {
		change = &next
	}
	keyspaces[0] = &next
	d.settings.Set(keyspaces)
	return change, nil
}

// storeSettings stores the default keyspace, which chooseSettings has changed. old is
// the keyspace before.
func (d *DB) storeSettings(old, change *manifest.Keyspace) error {
	if change == nil || mutant.On(mutant.UnstoredSettings) {
		return nil
	}
	if err := d.store.InstallNamed(manifest.Edit{PutKeyspaces: []*manifest.Keyspace{change}}); err != nil {
		return fmt.Errorf("store the settings: %w", err)
	}
	was := settings.Resolve(&old.Settings)
	e := SettingsChanged{Old: publicSettings(&was), New: d.Settings()}
	if e.Old != e.New {
		d.emit(e)
	}
	return nil
}

// SettingsChanged says that Open changed the stored settings of the database, because
// its options differ from them.
type SettingsChanged struct {
	// Old are the settings before the change, and New those after it.
	Old, New Settings
}

// Record returns the event as a log record.
func (e SettingsChanged) Record() (slog.Level, string, []slog.Attr) {
	var attrs []slog.Attr
	add := func(name string, old, now any) {
		if old != now {
			attrs = append(attrs, slog.Group(name, slog.Any("old", old), slog.Any("new", now)))
		}
	}
	add("ValueThreshold", e.Old.ValueThreshold, e.New.ValueThreshold)
	add("LargeValueThreshold", e.Old.LargeValueThreshold, e.New.LargeValueThreshold)
	add("Compression", e.Old.Compression, e.New.Compression)
	add("NumVersions", e.Old.NumVersions, e.New.NumVersions)
	add("MergeFunction", e.Old.MergeFunction, e.New.MergeFunction)
	add("Filter", e.Old.Filter, e.New.Filter)
	add("DefaultTTL", e.Old.DefaultTTL, e.New.DefaultTTL)
	return slog.LevelInfo, "stoat: settings changed", attrs
}
