package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/vfs"
)

// ErrNotEncrypted says that the database is not encrypted, and has no keys.
var ErrNotEncrypted = fmt.Errorf("%w: the database is not encrypted", base.ErrKey)

var errEncrypted = fmt.Errorf("%w: the database is encrypted, set Options.Keys", base.ErrKey)

// keyOptions returns the options of the data keys.
func (o *Options) keyOptions() seal.Options {
	return seal.Options{FS: o.FS, Dir: o.Dir, Provider: o.Keys, Clock: o.Clock,
		MaxAge: o.DataKeyAge, Random: rand.Reader, ReadOnly: o.ReadOnly, Report: o.Report}
}

// openKeys loads the keys of an encrypted database, or makes those of a new one. It
// returns nil keys without encryption. The file system that it returns encrypts tables
// and value files. refuse returns why Open will refuse a state of the manifest; it may be nil.
func openKeys(o seal.Options, memoryBudget int64, refuse func(*manifest.State) error) (vfs.FS, *seal.Keys, error) {
	if o.ReadOnly {
		// A writer makes the keys before the manifest, perhaps at this moment. A reader that
		// finds the manifest first finds the keys as well.
		if err := manifest.CheckExists(o.FS, o.Dir); err != nil {
			return nil, nil, err
		}
	}
	encrypted, err := seal.Exist(o.FS, o.Dir)
	if encrypted && !o.ReadOnly {
		encrypted, err = dropUnused(o.FS, o.Dir)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case !encrypted && o.Provider == nil:
		return o.FS, nil, nil
	case encrypted && o.Provider == nil:
		return nil, nil, errEncrypted
	}
	var keys *seal.Keys
	// An Open that is refused, such as by a later format, leaves the master key alone.
	o.Refuse = func(k *seal.Keys) error {
		state, err := manifest.Readable(o.FS, o.Dir, k)
		if err != nil || refuse == nil {
			return err
		}
		return refuse(&state)
	}
	if encrypted {
		keys, err = seal.Load(context.Background(), o)
	} else {
		keys, err = createKeys(o)
	}
	if err != nil {
		return nil, nil, err
	}
	keys.Memory.SetLimit(memoryBudget / 2) // until the first round of the governor
	return keys.FS(o.FS), keys, nil
}

// dropUnused removes KEYS if there is no database: an Open has failed after it made KEYS and
// before it wrote the first manifest. It reports whether KEYS stays. A directory without a
// manifest that has tables, value files or a log is a damaged database, and keeps KEYS.
func dropUnused(fs vfs.FS, dir string) (stays bool, err error) {
	if err := manifest.CheckExists(fs, dir); !errors.Is(err, vfs.ErrNotExist) {
		return true, nil // an error of CheckExists comes back from Load
	}
	return false, seal.Discard(fs, dir)
}

// createKeys makes the keys of a new database. It refuses a database that exists without
// keys.
func createKeys(o seal.Options) (*seal.Keys, error) {
	exists, sealed, err := manifest.Inspect(o.FS, o.Dir)
	switch {
	case err != nil:
		return nil, err
	case sealed:
		return nil, &base.CorruptionError{File: seal.KeysName, Offset: -1, What: "file", Got: "none", Want: "the data keys"}
	case exists:
		return nil, fmt.Errorf("%w: leave Options.Keys nil", ErrNotEncrypted)
	}
	return seal.Create(context.Background(), o)
}

// PrepareKeys returns the file system for a new database of these options, and what
// seals its manifest, nil without encryption.
func PrepareKeys(o Options) (vfs.FS, record.Sealer, error) {
	fs, keys, err := openKeys(o.keyOptions(), o.MemoryBudget, nil)
	return fs, sealer(keys), err
}

// sealer returns what makes the keys of log and manifest, nil without encryption.
func sealer(k *seal.Keys) record.Sealer {
	if k == nil {
		return nil
	}
	return k
}
