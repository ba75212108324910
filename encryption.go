package stoat

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/seal"
)

// ErrKey says that Options.Keys does not fit the database:
//
//   - the database is encrypted, and Options.Keys is nil;
//   - the database is not encrypted, and Options.Keys is set;
//   - the provider lacks the master key of the database, or has a wrong one.
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
// effect without rewriting the database; see DB.RotateMasterKey.
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
// current one does not protect yet.
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
// begin with # do not count.
func KeyFile(name string) KeyProvider { return seal.KeyFile(name) }

// dataKeyAgeDefault and dataKeyAgeMin are the default and the least of
// Options.DataKeyAge.
const (
	dataKeyAgeDefault = 30 * 24 * time.Hour
	dataKeyAgeMin     = time.Second
)

// RotateMasterKey protects the database with the current master key of Options.Keys. It
// replaces the file KEYS and rewrites nothing else. Open does the same when the current
// key is another one. The caller may then forget the old master key, unless copies of
// the database still need it. On a database that is not encrypted it returns ErrKey.
func (d *DB) RotateMasterKey(ctx context.Context) error {
	switch {
	case d.keys == nil:
		return errNotEncrypted
	case d.opts.ReadOnly:
		return ErrReadOnly
	}
	ctx, end, err := d.group.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := d.keys.RotateMaster(ctx); err != nil {
		return fmt.Errorf("rotate the master key: %w", err)
	}
	return nil
}

var (
	errNotEncrypted = fmt.Errorf("%w: the database is not encrypted", ErrKey)
	errEncrypted    = fmt.Errorf("%w: the database is encrypted, set Options.Keys", ErrKey)
)

// openKeys loads the keys of an encrypted database, or makes those of a new one. From
// then on, the file system of the options encrypts tables and value files.
func (d *DB) openKeys() error {
	fs := d.opts.FS
	encrypted, err := seal.Exist(fs, d.dir)
	switch {
	case err != nil:
		return err
	case !encrypted && d.opts.Keys == nil:
		return nil
	case encrypted && d.opts.Keys == nil:
		return errEncrypted
	}
	o := seal.Options{FS: fs, Dir: d.dir, Provider: d.opts.Keys, Clock: d.opts.Clock,
		MaxAge: d.opts.DataKeyAge, Random: rand.Reader, ReadOnly: d.opts.ReadOnly}
	if encrypted {
		d.keys, err = seal.Load(context.Background(), o)
	} else {
		d.keys, err = d.createKeys(o)
	}
	if err != nil {
		return err
	}
	if d.keys != nil {
		d.keys.Memory.SetLimit(d.opts.MemoryBudget / 2) // the governor soon knows better
		d.opts.FS = d.keys.FS(fs)
	}
	return nil
}

// createKeys makes the keys of a new database. It refuses a database that exists without
// keys, and makes none for a read-only open, which finds no database.
func (d *DB) createKeys(o seal.Options) (*seal.Keys, error) {
	exists, sealed, err := manifest.Inspect(o.FS, o.Dir)
	switch {
	case err != nil:
		return nil, err
	case sealed:
		return nil, &base.CorruptionError{File: seal.KeysName, Offset: -1, What: "file", Got: "none", Want: "the data keys"}
	case exists:
		return nil, errNotEncrypted
	case o.ReadOnly:
		return nil, nil
	}
	// The process that created the directory may have died before it was durable.
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, err
	}
	return seal.Create(context.Background(), o)
}

// sealer returns what makes the keys of log and manifest, nil without encryption.
func sealer(k *seal.Keys) record.Sealer {
	if k == nil {
		return nil
	}
	return k
}
