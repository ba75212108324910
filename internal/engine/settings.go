package engine

import (
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/settings"
)

// Upgraded says what an Open with Options.Upgrade has found and done.
type Upgraded struct {
	// Was is the state before.
	Was manifest.State
	// StoredSettings says that not all settings were stored, and now are.
	StoredSettings bool
}

// chooseSettings puts the settings in force: the stored ones, with the changes that
// the options demand. It returns the default keyspace as it must be stored, or nil if
// it is stored so. A read-only Open changes nothing.
func (e *Engine) chooseSettings(s *manifest.State) (change *manifest.Keyspace, err error) {
	keyspaces := append([]*manifest.Keyspace(nil), s.Keyspaces...)
	next := *keyspaces[0]
	if !e.o.ReadOnly {
		given := e.o.Settings
		if mutant.On(mutant.ForgetSettings) {
			given = given.WithDefaults()
		}
		given.Store(&next.Settings)
	}
	r := settings.Resolve(&next.Settings)
	if e.o.Upgrade {
		e.Upgraded.Was = *s
		before := next.Settings
		r.Given().Store(&next.Settings)
		e.Upgraded.StoredSettings = next.Settings != before
	}
	if r.LargeValueThreshold < r.ValueThreshold {
		return nil, base.Invalid("Options.ValueThreshold is %d and Options.LargeValueThreshold is %d; "+
			"with the stored settings, values would be large from %d bytes, and lie apart from %d bytes",
			e.o.Settings.ValueThreshold, e.o.Settings.LargeValueThreshold, r.LargeValueThreshold, r.ValueThreshold)
	}
	if next != *keyspaces[0] {
		change = &next
	}
	keyspaces[0] = &next
	e.Settings.Set(keyspaces)
	return change, nil
}

// storeSettings stores the default keyspace, which chooseSettings has changed. old is
// the keyspace before.
func (e *Engine) storeSettings(old, change *manifest.Keyspace) error {
	if change == nil || mutant.On(mutant.UnstoredSettings) {
		return nil
	}
	if err := e.Store.InstallNamed(manifest.Edit{PutKeyspaces: []*manifest.Keyspace{change}}); err != nil {
		return fmt.Errorf("store the settings: %w", err)
	}
	was := settings.Resolve(&old.Settings)
	if before, now := was.Given(), e.Settings.Of(0).Given(); before != now {
		e.o.Report(settings.Changed{Old: before, New: now})
	}
	return nil
}
