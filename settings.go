package stoat

import (
	"log/slog"
	"reflect"
	"time"

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
	// DefaultTTL is how long a value lives if its Set names no expiry time. 0 means
	// forever.
	DefaultTTL time.Duration
	// ChangeRetention is Options.ChangeRetention. 0 means none.
	ChangeRetention int64
}

// Settings returns the settings of the default keyspace. Keyspaces returns those of all.
func (d *DB) Settings() Settings { return publicSettings(d.engine.Settings.Of(0).Given()) }

func publicSettings(g settings.Given) Settings {
	return Settings{g.ValueThreshold, g.LargeValueThreshold, Compression(g.Compression), g.NumVersions,
		g.MergeFunction, g.Filter, g.DefaultTTL, g.ChangeRetention}
}

// given returns the settings among the options. Those that the caller left out are zero.
func (o *Options) given() settings.Given {
	return settings.Given{ValueThreshold: o.ValueThreshold, LargeValueThreshold: o.LargeValueThreshold,
		Compression: settings.Compression(o.Compression), NumVersions: o.NumVersions,
		MergeFunction: o.MergeFunction, Filter: o.Filter, DefaultTTL: o.DefaultTTL, ChangeRetention: o.ChangeRetention}
}

// SettingsChanged says that Open or DB.Keyspace changed stored settings, because its
// options differ from them. A new keyspace is no change, nor are other Timestamps.
type SettingsChanged struct {
	// Keyspace is the name of the keyspace, empty for the default keyspace.
	Keyspace string
	// Old are the settings before the change, and New those after it.
	Old, New Settings
}

// Record returns the event as a log record.
func (e SettingsChanged) Record() (slog.Level, string, []slog.Attr) {
	attrs := []slog.Attr{slog.String("keyspace", e.Keyspace)}
	was, now := reflect.ValueOf(e.Old), reflect.ValueOf(e.New)
	for i := range was.NumField() {
		if old, new := was.Field(i).Interface(), now.Field(i).Interface(); old != new {
			attrs = append(attrs, slog.Group(was.Type().Field(i).Name, slog.Any("old", old), slog.Any("new", new)))
		}
	}
	return slog.LevelInfo, "stoat: settings changed", attrs
}
