package stoat

import (
	"slices"

	"github.com/stoatdb/stoat/internal/engine"
	"github.com/stoatdb/stoat/internal/manifest"
)

// A Format says what a program must know to open a database.
type Format struct {
	// Version is the version of all file formats. A program opens its own version
	// and all earlier ones.
	Version int
	// RequiredFeatures are the names of the features that the database uses and that
	// a program must know. A program may ignore OptionalFeatures. Names ascend.
	RequiredFeatures, OptionalFeatures []string
}

// Format returns the format of the database. A feature counts from its first use.
func (d *DB) Format() Format { return formatOf(d.engine.Manifest.State()) }

func formatOf(s manifest.State) Format {
	return Format{Version: int(s.FormatVersion), RequiredFeatures: slices.Clone(s.RequiredFeatures),
		OptionalFeatures: slices.Clone(s.OptionalFeatures)}
}

// An UpgradeReport says what Upgrade found and did.
type UpgradeReport struct {
	// Was is the format before the upgrade, and Now the format after it.
	Was, Now Format
	// StoredSettings says that the database did not store all of its settings, and
	// stores them now.
	StoredSettings bool
}

// Upgrade brings the database in dir to the newest format of this program. It changes
// only what that takes, and needs the database for itself. Open changes no format, so
// until Upgrade earlier versions of stoat can open the database too. opts may be nil.
// Without a database, Upgrade returns fs.ErrNotExist of package io/fs.
func Upgrade(dir string, opts *Options) (*UpgradeReport, error) {
	o := opts.withDefaults()
	if o.ReadOnly {
		return nil, ErrReadOnly
	}
	o.MustExist = true
	d, err := open(dir, o, engine.Options{Upgrade: true})
	if err != nil {
		return nil, err
	}
	was := d.engine.Upgraded
	report := &UpgradeReport{Was: formatOf(was.Was), Now: d.Format(), StoredSettings: was.StoredSettings}
	if err := d.Close(); err != nil {
		return nil, err
	}
	return report, nil
}
