package stoat

import (
	"context"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/spaces"
	"github.com/stoatdb/stoat/internal/transaction"
)

// A Keyspace is a named set of keys with settings of its own. A key of one keyspace is
// unrelated to an equal key of another. Txn.In returns a transaction in a keyspace. One
// transaction may read and write any number of keyspaces.
//
// Any goroutine may use a Keyspace, until the database is closed.
type Keyspace struct {
	db *DB
	k  *transaction.Keyspace
}

// KeyspaceOptions change the settings of a keyspace, which the database stores. A
// field that is zero leaves the setting as it is. A new keyspace gets the default that is
// documented for each field of Options. It does not get what Open was given, nor the
// settings of another keyspace.
type KeyspaceOptions struct {
	// ValueThreshold and LargeValueThreshold are lengths of values in bytes, as
	// described in Options.
	ValueThreshold, LargeValueThreshold int64
	// Compression says how the database compresses values of the keyspace.
	Compression Compression
	// NumVersions is how many versions of a key the database keeps at least.
	NumVersions int
	// MergeFunction and Filter name the merge function and the compaction filter of the
	// keyspace; see Options. The name "none" removes a stored name.
	MergeFunction, Filter string
	// DefaultTTL is how long a value lives if its Set names no expiry time; see
	// Options.
	DefaultTTL time.Duration
	// Timestamps, if it is not 0, says that the caller chooses the timestamps of
	// versions; see Txn.At. Without At, reads and writes in such a keyspace return
	// ErrInvalid. It is set when the keyspace is created. Later it may only
	// change between TimestampsChecked and TimestampsUnchecked. Such a keyspace has neither
	// a merge function nor a filter: to set one is ErrInvalid.
	Timestamps Timestamps
}

// KeyspaceInfo describes a keyspace.
type KeyspaceInfo struct {
	// Name is the name of the keyspace. The default keyspace has none.
	Name string
	// ID is 0 for the default keyspace. A keyspace keeps its ID, and no later one gets it,
	// even with the same name.
	ID uint32
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
		return nil, base.Invalid("the name of the keyspace is %.80q: %s", name, why)
	}
	if o == nil {
		o = new(KeyspaceOptions)
	}
	given := o.given()
	if err := given.Validate("KeyspaceOptions"); err != nil {
		return nil, err
	}
	var readOnly error
	if d.opts.ReadOnly {
		readOnly = ErrReadOnly
	}
	h, err := d.engine.Spaces.Open(name, o.change, readOnly)
	if err != nil {
		return nil, err
	}
	return &Keyspace{db: d, k: d.engine.Transactions.Keyspace(h)}, nil
}

// Keyspaces returns all keyspaces, ordered by the time of their creation, with the
// default keyspace first.
func (d *DB) Keyspaces() ([]KeyspaceInfo, error) {
	if d.engine.Store.Closed() {
		return nil, ErrClosed
	}
	var all []KeyspaceInfo
	for _, k := range d.engine.Store.State().Keyspaces {
		if !k.Dropping {
			r := settings.Resolve(&k.Settings)
			all = append(all, KeyspaceInfo{Name: k.Name, ID: k.Number, Settings: publicSettings(r.Given()), Timestamps: Timestamps(k.Settings.Timestamps)})
		}
	}
	return all, nil
}

// allKeyspaces returns the keyspaces that the snapshot of begin sees, with nil for the
// default keyspace first.
func (d *DB) allKeyspaces(begin func() error) ([]*Keyspace, error) {
	handles, err := d.engine.Spaces.All(begin)
	all := []*Keyspace{nil}
	for _, h := range handles {
		all = append(all, &Keyspace{db: d, k: d.engine.Transactions.Keyspace(h)})
	}
	return all, err
}

// DropKeyspace deletes the keyspace with a name, and all its keys, in constant time.
// Background jobs free the space. Transactions that began before still see the
// keyspace, and can no longer write to it: the write or the commit returns ErrNoKeyspace. If the
// keyspace does not exist, the error is ErrNoKeyspace.
//
// The drop is durable when DropKeyspace returns nil, and so are all earlier commits. After an
// error, the keyspace may be dropped nonetheless: then Keyspaces does not list it.
//
// A later Keyspace with the same name creates a new, empty keyspace.
func (d *DB) DropKeyspace(name string) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	return d.engine.Spaces.Drop(context.Background(), name)
}

// Name returns the name of the keyspace.
func (k *Keyspace) Name() string { return k.k.Handle().Name }

// DropPrefix is DB.DropPrefix for the keyspace.
func (k *Keyspace) DropPrefix(ctx context.Context, prefix []byte) error {
	return k.db.drop(ctx, k, prefix)
}

// DropAll is DropPrefix for all keys of the keyspace, which stays with its settings.
func (k *Keyspace) DropAll(ctx context.Context) error { return k.db.drop(ctx, k, nil) }

// inner returns what transactions know of the keyspace. A nil k is the default keyspace, and
// a zero Keyspace is none.
func (k *Keyspace) inner() *transaction.Keyspace {
	switch {
	case k == nil:
		return nil
	case k.k == nil:
		return transaction.NoKeyspace
	}
	return k.k
}

// given returns those of the options that Settings has, too.
func (o *KeyspaceOptions) given() settings.Given {
	return settings.Given{ValueThreshold: o.ValueThreshold, LargeValueThreshold: o.LargeValueThreshold,
		Compression: settings.Compression(o.Compression), NumVersions: o.NumVersions,
		MergeFunction: o.MergeFunction, Filter: o.Filter, DefaultTTL: o.DefaultTTL}
}

// change is spaces.Change for the options.
func (o *KeyspaceOptions) change(m *manifest.Settings, isNew bool) error {
	if err := o.Timestamps.change(m, isNew); err != nil {
		return err
	}
	if err := o.given().Change(m, isNew); err != nil {
		return err
	}
	if m.Timestamps != 0 && (m.MergeFunction != "" || m.Filter != "") {
		return base.Invalid("a keyspace with timestamps has neither a merge function nor a filter")
	}
	return nil
}

// change puts t into the settings of a keyspace.
func (t Timestamps) change(m *manifest.Settings, created bool) error {
	switch {
	case t == 0 || uint8(t) == m.Timestamps:
		return nil
	case t > TimestampsUnchecked:
		return base.Invalid("KeyspaceOptions.Timestamps is %d", t)
	case m.Timestamps == 0 && !created:
		return base.Invalid("KeyspaceOptions.Timestamps is %d, but the keyspace was created without timestamps", t)
	}
	m.Timestamps = uint8(t)
	return nil
}
