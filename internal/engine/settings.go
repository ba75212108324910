package engine

import (
	"fmt"
	"slices"

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
	next, err := e.o.demand(s)
	if err != nil {
		return nil, err
	}
	keyspaces := slices.Clone(s.Keyspaces)
	if e.o.Upgrade {
		e.Upgraded.Was = *s
		before := next.Settings
		r := settings.Resolve(&before)
		r.Given().Store(&next.Settings)
		e.Upgraded.StoredSettings = next.Settings != before
	}
	if next != *keyspaces[0] {
		change = &next
	}
	keyspaces[0] = &next
	e.Settings.Set(keyspaces)
	return change, nil
}

// demand returns the default keyspace as the options demand it. It fails if they contradict
// what is stored.
func (o *Options) demand(s *manifest.State) (next manifest.Keyspace, err error) {
	next = *s.Keyspaces[0]
	if !o.ReadOnly {
		given := o.Settings
		if mutant.On(mutant.ForgetSettings) {
			given = given.WithDefaults()
		}
		given.Store(&next.Settings)
	}
	if r := settings.Resolve(&next.Settings); r.LargeValueThreshold < r.ValueThreshold {
		return next, base.Invalid("Options.ValueThreshold is %d and Options.LargeValueThreshold is %d; "+
			"with the stored settings, values would be large from %d bytes, and lie apart from %d bytes",
			o.Settings.ValueThreshold, o.Settings.LargeValueThreshold, r.LargeValueThreshold, r.ValueThreshold)
	}
	return next, nil
}

// checkSettings returns the error of demand.
func (o *Options) checkSettings(s *manifest.State) error {
	_, err := o.demand(s)
	return err
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
