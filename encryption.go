package stoat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/engine"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// ErrKey says that Options.Keys does not fit the database:
//
//   - the database is encrypted, and Options.Keys is nil;
//   - the database is not encrypted, and Options.Keys is set;
//   - the provider lacks the master key of the database, or has a wrong one;
//   - the current master key has the ID of the key of the database, but other bytes.
//
// The text tells which.
var ErrKey = base.ErrKey

// MasterKeySize is the length of a master key in bytes: 32.
const MasterKeySize = seal.KeySize

// A KeyProvider supplies the master keys of encrypted databases. Each has MasterKeySize
// bytes, and an ID of 1 to 255 bytes, which the database stores in plain text. Any
// goroutine may call the methods.
//
// A master key protects only the data keys in the file KEYS. So a new master key takes
// effect without rewriting the database; see DB.RotateMasterKey. A new master key needs a
// new ID.
type KeyProvider interface {
	// Current returns the master key that new and rotated databases use, and its ID.
	Current(ctx context.Context) (id string, key []byte, err error)
	// Key returns the master key with an ID that Current returned once.
	Key(ctx context.Context, id string) ([]byte, error)
}

// A MasterKey is a master key with its ID.
type MasterKey struct {
	// ID names the key. It has 1 to 255 bytes.
	ID string
	// Key is the key. It has MasterKeySize bytes.
	Key []byte
}

// StaticKeys returns a provider of fixed keys. The older keys open databases that the
// current one does not protect yet. The provider copies the keys, so the caller may clear
// its own.
func StaticKeys(current MasterKey, older ...MasterKey) KeyProvider {
	keys := []seal.MasterKey{seal.MasterKey(current)}
	for _, k := range older {
		keys = append(keys, seal.MasterKey(k))
	}
	return seal.StaticKeys(keys...)
}

// KeyFile returns a provider that reads master keys from a file of the operating system,
// at each call. Each line of the file is the ID of a key, a space, and the key as 64
// hexadecimal digits. The first line is the current key. Empty lines and lines that
// begin with # do not count. The file may be a symbolic link, such as a mounted secret of
// Kubernetes.
func KeyFile(name string) KeyProvider { return seal.KeyFile(name) }

// dataKeyAgeDefault and dataKeyAgeMin are the default and the least of
// Options.DataKeyAge.
const (
	dataKeyAgeDefault = 30 * 24 * time.Hour
	dataKeyAgeMin     = time.Second
)

// RotateMasterKey protects the database with the current master key of Options.Keys. It
// replaces the file KEYS and rewrites nothing else. Open does the same when the current
// key is another one. Once RotateMasterKey has returned nil, the caller may forget the old
// master key, unless copies of the database still need it.
//
// The data keys stay the same. An old copy of KEYS and the old master key open all files
// that were written until then. After a leak of both, restore a backup into a new database.
//
// RotateMasterKey returns ErrKey on a database that is not encrypted, and if the current
// key has the ID of the old one, but other bytes.
func (d *DB) RotateMasterKey(ctx context.Context) error {
	switch {
	case d.engine.Keys == nil:
		return engine.ErrNotEncrypted
	case d.opts.ReadOnly:
		return ErrReadOnly
	}
	ctx, end, err := d.engine.Group.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := d.engine.Keys.RotateMaster(ctx); err != nil {
		if errors.Is(err, vfs.ErrNamesLost) {
			err = d.engine.Commits.Fail(err)
		} else {
			err = work.Ended(ctx, err)
		}
		return fmt.Errorf("rotate the master key: %w", err)
	}
	return nil
}
