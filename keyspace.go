package stoat

import (
	"context"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/spaces"
)

// A Keyspace is a named set of keys with settings of its own. Keys of different
// keyspaces never meet. Txn.In returns a transaction in a keyspace. One transaction
// may read and write any number of keyspaces.
//
// Any goroutine may use a Keyspace, until the database is closed.
type Keyspace struct {
	db     *DB
	space  keyspace.Space
	handle *spaces.Handle
	// versions is the keyspace of the encoded versions, if the caller chooses the
	// timestamps. See timestamps.go.
	versions *Keyspace
}

// KeyspaceOptions change the settings of a keyspace, which the database stores. A
// field that is zero leaves the setting as it is. A new keyspace has the defaults of
// Options, and not the settings of another keyspace.
type KeyspaceOptions struct {
	// ValueThreshold and LargeValueThreshold are lengths of values in bytes, as
	// described in Options.
	ValueThreshold, LargeValueThreshold int64
	// Compression says how the database compresses values of the keyspace.
	Compression Compression
	// NumVersions is how many versions of a key the database keeps at least.
	NumVersions int
	// MergeFunction and Filter name the merge function and the compaction filter of the
	// keyspace; see Options.
	MergeFunction, Filter string
	// DefaultTTL is how long a value lives if its Set names no time of expiry; see
	// Options.
	DefaultTTL time.Duration
	// Timestamps, if it is not 0, says that the caller chooses the timestamps of
	// versions; see Txn.At. It is set when the keyspace is created. Later it may only
	// change between TimestampsChecked and TimestampsUnchecked.
	Timestamps Timestamps
}

// KeyspaceInfo describes a keyspace.
type KeyspaceInfo struct {
	// Name is the name of the keyspace. The default keyspace has none.
	Name string
	// Settings are the stored settings of the keyspace.
	Settings Settings
	// Timestamps is KeyspaceOptions.Timestamps.
	Timestamps Timestamps
}

// Keyspace returns the keyspace with a name, and creates it if it does not exist.
// Options that are not nil change its settings; see KeyspaceOptions. The keyspace and
// its settings are durable when Keyspace returns.
//
// A name has 1 to 255 bytes of UTF-8, without zero bytes. In a read-only database,
// Keyspace returns ErrNoKeyspace if the keyspace does not exist, and ErrReadOnly if
// its settings would change.
func (d *DB) Keyspace(name string, o *KeyspaceOptions) (*Keyspace, error) {
	if why := spaces.CheckName(name); why != "" {
		return nil, invalid("the name of the keyspace is %.80q: %s", name, why)
	}
	if o == nil {
		o = new(KeyspaceOptions)
	}
	given := o.settings()
	if err := given.validate("KeyspaceOptions"); err != nil {
		return nil, err
	}
	var readOnly error
	if d.opts.ReadOnly {
		readOnly = ErrReadOnly
	}
	h, err := d.spaces.Open(name, o.change, readOnly)
	if err != nil {
		return nil, err
	}
	ks := &Keyspace{db: d, space: h.Space, handle: h}
	if h.Timestamps() != 0 {
		ks.versions = &Keyspace{db: d, space: h.Space, handle: h}
	}
	return ks, nil
}

// Keyspaces returns all keyspaces, ordered by the time of their creation, with the
// default keyspace first.
func (d *DB) Keyspaces() ([]KeyspaceInfo, error) {
	if d.store.Closed() {
		return nil, ErrClosed
	}
	var all []KeyspaceInfo
	for _, k := range d.store.State().Keyspaces {
		if !k.Dropping {
			r := settings.Resolve(&k.Settings)
			all = append(all, KeyspaceInfo{Name: k.Name, Settings: publicSettings(&r), Timestamps: Timestamps(k.Settings.Timestamps)})
		}
	}
	return all, nil
}

// DropKeyspace deletes the keyspace with a name, and all its keys, in constant time.
// Background jobs free the space. Transactions that began before still see the
// keyspace, and can no longer write to it: their commit returns ErrNoKeyspace. If the
// keyspace does not exist, the error is ErrNoKeyspace.
//
// A later Keyspace with the same name creates a new, empty keyspace.
func (d *DB) DropKeyspace(name string) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	return d.spaces.Drop(context.Background(), name)
}

// Name returns the name of the keyspace.
func (k *Keyspace) Name() string { return k.handle.Name }

// DropPrefix is DB.DropPrefix for the keyspace.
func (k *Keyspace) DropPrefix(ctx context.Context, prefix []byte) error {
	return k.db.drop(ctx, k, prefix)
}

// DropAll is DropPrefix for all keys of the keyspace, which stays with its settings.
func (k *Keyspace) DropAll(ctx context.Context) error { return k.db.drop(ctx, k, nil) }

// readable returns the error of reads of a transaction in the keyspace, or nil.
func (k *Keyspace) readable(tx Txn) error {
	if err := k.of(tx.s.db); err != nil {
		return err
	}
	switch {
	case k.versions != nil:
		return invalid("the keyspace %.80q has timestamps: Txn.At reads and writes it", k.Name())
	case k.handle.GoneFor(tx.s.seq):
		return k.gone()
	}
	return nil
}

// of returns an error if the keyspace belongs to another database, or to another
// opening of the database.
func (k *Keyspace) of(d *DB) error {
	if d != k.db {
		return invalid("the keyspace %.80q belongs to another database", k.Name())
	}
	return nil
}

// enter lets the transaction write to the keyspace.
func (k *Keyspace) enter(tx Txn) error {
	if err := k.readable(tx); err != nil {
		return err
	}
	if k.handle.Gate.IsShut() {
		return k.gone()
	}
	tx.s.writes.Pass(&k.handle.Gate)
	return nil
}

func (k *Keyspace) gone() error {
	return fmt.Errorf("%w: %q was dropped", base.ErrNoKeyspace, k.Name())
}

// In returns the same transaction in the keyspace ks. The reads and writes of the
// result are those of ks, and Commit, Discard and Err are of the one transaction. A
// nil ks is the default keyspace.
//
// The operations of the result return ErrNoKeyspace once ks is dropped. Reads of a
// transaction that began before see the keyspace as it was.
func (tx Txn) In(ks *Keyspace) Txn {
	tx.in = ks
	return tx
}

// Keys are translated here and only here: a stored key is the prefix of its keyspace
// and the key of the user. See package internal/keyspace.

// A keyBuffer has room for the stored form of most keys. It lies on the stack of a
// read.
type keyBuffer [96]byte

// plain reports whether the stored form of key is key itself.
func (tx Txn) plain(key []byte) bool {
	return tx.in == nil && (len(key) == 0 || key[0] != keyspace.Escape)
}

// space returns the translation of the transaction's keyspace.
func (tx Txn) space() *keyspace.Space { return tx.in.translation() }

// translation returns the translation of the keyspace. A nil k is the default
// keyspace.
func (k *Keyspace) translation() *keyspace.Space {
	if k == nil {
		return &defaultSpace
	}
	return &k.space
}

// defaultSpace is the translation of the default keyspace. It is never changed.
var defaultSpace keyspace.Space

// storedKey appends the stored form of a key that a read looks for to dst. It checks
// what lookup does not check of stored keys.
func (tx Txn) storedKey(dst, key []byte) ([]byte, error) {
	if err := tx.check(); err != nil {
		return nil, err
	}
	if tx.in != nil {
		if err := tx.in.readable(tx); err != nil {
			return nil, err
		}
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return tx.space().Append(dst, key), nil
}

// keyToWrite returns the stored form of key, which is valid until the next call. The
// transaction can write.
func (tx Txn) keyToWrite(key []byte) []byte {
	if tx.plain(key) {
		return key
	}
	w := tx.s.writes
	w.Key = tx.space().Append(w.Key[:0], key)
	return w.Key
}

// settings returns the settings of the transaction's keyspace.
func (tx Txn) settings() *settings.Settings {
	if tx.in == nil {
		return tx.s.db.settings.Default()
	}
	return tx.in.settings()
}

func (k *Keyspace) settings() *settings.Settings { return k.db.settings.Of(k.space.Number()) }

// skip returns the length in bytes of what precedes the user's key in a stored key.
func (tx Txn) skip(stored []byte) uint8 {
	return uint8(tx.space().Skip(stored)) //nolint:gosec // at most keyspace.PrefixMax
}

// A translated holds bounds of stored keys in one buffer. A nil lower or upper is no
// bound.
type translated struct {
	lower, upper []byte
	buffer       []byte
}

// set sets b to the stored form of the bounds lo and hi of a user. nil means the
// bound of the keyspace.
func (b *translated) set(s *keyspace.Space, lo, hi []byte) {
	if b.buffer == nil {
		b.buffer = make([]byte, 0, 64) // so that an empty bound is not nil
	}
	all := b.buffer[:0]
	lower := lo != nil || s.Number() > 0
	if lower {
		all = s.Append(all, lo)
	}
	n, upper := len(all), true
	switch {
	case hi != nil:
		all = s.Append(all, hi)
	case mutant.On(mutant.KeyspaceOpenEnd):
		upper = false
	default:
		all = s.AppendEnd(all)
	}
	b.buffer, b.lower, b.upper = all, nil, nil
	if lower {
		b.lower = all[:n:n]
	}
	if upper {
		b.upper = all[n:]
	}
}

// settings returns those of the options that Settings has, too.
func (o *KeyspaceOptions) settings() Settings {
	return Settings{ValueThreshold: o.ValueThreshold, LargeValueThreshold: o.LargeValueThreshold,
		Compression: o.Compression, NumVersions: o.NumVersions, DefaultTTL: o.DefaultTTL,
		MergeFunction: o.MergeFunction, Filter: o.Filter}
}

// change is spaces.Change for the options.
func (o *KeyspaceOptions) change(m *manifest.Settings, isNew bool) error {
	if err := o.Timestamps.change(m, isNew); err != nil {
		return err
	}
	if err := o.settings().change(m, isNew); err != nil {
		return err
	}
	if m.Timestamps != 0 && (m.MergeFunction != "" || m.Filter != "") {
		return invalid("a keyspace with timestamps has neither a merge function nor a filter")
	}
	return nil
}
