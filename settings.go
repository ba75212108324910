package stoat

import (
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/stoatdb/stoat/internal/base"
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
	// ChangeRetention is Options.ChangeRetention. 0 means none.
	ChangeRetention int64
}

// Settings returns the settings that are in force.
func (d *DB) Settings() Settings { return publicSettings(d.settings.Of(0)) }

func publicSettings(s *settings.Settings) Settings {
	g := s.Given()
	return Settings{g.ValueThreshold, g.LargeValueThreshold, Compression(g.Compression), g.NumVersions,
		g.MergeFunction, g.Filter, g.DefaultTTL, g.ChangeRetention}
}

// given returns the settings among the options. Those that the caller left out are zero.
func (o *Options) given() settings.Given {
	return settings.Given{ValueThreshold: o.ValueThreshold, LargeValueThreshold: o.LargeValueThreshold,
		Compression: settings.Compression(o.Compression), NumVersions: o.NumVersions,
		MergeFunction: o.MergeFunction, Filter: o.Filter, DefaultTTL: o.DefaultTTL, ChangeRetention: o.ChangeRetention}
}

// firstKeyspace returns the default keyspace of a new database.
func (o *Options) firstKeyspace() *manifest.Keyspace {
	k := new(manifest.Keyspace)
	o.given().WithDefaults().Store(&k.Settings)
	return k
}

// chooseSettings puts the settings in force: the stored ones, with the changes that
// the options demand. It returns the default keyspace as it must be stored, or nil if
// it is stored so. A read-only open changes nothing.
func (d *DB) chooseSettings(s *manifest.State) (change *manifest.Keyspace, err error) {
	keyspaces := append([]*manifest.Keyspace(nil), s.Keyspaces...)
	next := *keyspaces[0]
	if !d.opts.ReadOnly {
		given := d.opts.given()
		if mutant.On(mutant.ForgetSettings) {
			given = given.WithDefaults()
		}
		given.Store(&next.Settings)
	}
	r := settings.Resolve(&next.Settings)
	if d.upgrade != nil {
		d.upgrade.Was = formatOf(*s)
		before := next.Settings
		r.Given().Store(&next.Settings)
		d.upgrade.StoredSettings = next.Settings != before
	}
	if r.LargeValueThreshold < r.ValueThreshold {
		return nil, base.Invalid("Options.ValueThreshold is %d and Options.LargeValueThreshold is %d; "+
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
	was, now := reflect.ValueOf(e.Old), reflect.ValueOf(e.New)
	for i := range was.NumField() {
		if old, new := was.Field(i).Interface(), now.Field(i).Interface(); old != new {
			attrs = append(attrs, slog.Group(was.Type().Field(i).Name, slog.Any("old", old), slog.Any("new", new)))
		}
	}
	return slog.LevelInfo, "stoat: settings changed", attrs
}
