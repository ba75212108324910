package transaction

import (
	"bytes"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/spaces"
	"github.com/stoatdb/stoat/internal/stamp"
)

// A Keyspace is an open keyspace, as transactions use it.
type Keyspace struct {
	engine *Engine
	space  keyspace.Space
	handle *spaces.Handle
	// versions is the keyspace of the encoded versions, if the caller chooses the
	// timestamps.
	versions *Keyspace
}

// Keyspace returns the keyspace of a handle.
func (e *Engine) Keyspace(h *spaces.Handle) *Keyspace {
	k := &Keyspace{engine: e, space: h.Space, handle: h}
	if h.Timestamps() != 0 {
		k.versions = &Keyspace{engine: e, space: h.Space, handle: h}
	}
	return k
}

// NoKeyspace belongs to no database. All of its operations are ErrInvalid.
var NoKeyspace = &Keyspace{handle: new(spaces.Handle)}

// readable returns the error of reads of a transaction in the keyspace, or nil.
func (k *Keyspace) readable(tx Txn) error {
	if err := k.of(tx.s.engine); err != nil {
		return err
	}
	switch {
	case k.versions != nil:
		return base.Invalid("the keyspace %.80q has timestamps: Txn.At reads and writes it", k.handle.Name)
	case k.handle.GoneFor(tx.s.seq):
		return k.gone()
	}
	return nil
}

// of returns an error if the keyspace belongs to another database, or to another
// opening of the database.
func (k *Keyspace) of(e *Engine) error {
	switch k.engine {
	case e:
		return nil
	case nil:
		return base.Invalid("the keyspace is the zero Keyspace: DB.Keyspace returns others")
	}
	return base.Invalid("the keyspace %.80q belongs to another database", k.handle.Name)
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
	return fmt.Errorf("%w: %q was dropped", base.ErrNoKeyspace, k.handle.Name)
}

// In is stoat.Txn.In.
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

// Space returns the translation of the transaction's keyspace.
func (tx Txn) Space() *keyspace.Space { return tx.in.translation() }

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
	if err := tx.readable(); err != nil {
		return nil, err
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return tx.Space().Append(dst, key), nil
}

// keyToWrite returns the stored form of key, which is valid until the next call. The
// transaction can write.
func (tx Txn) keyToWrite(key []byte) []byte {
	if tx.plain(key) {
		return key
	}
	w := tx.s.writes
	w.Key = tx.Space().Append(w.Key[:0], key)
	return w.Key
}

// settings returns the settings of the transaction's keyspace.
func (tx Txn) settings() *settings.Settings {
	if tx.in == nil {
		return tx.s.engine.Settings.Default()
	}
	return tx.in.settings()
}

func (k *Keyspace) settings() *settings.Settings { return k.engine.Settings.Of(k.space.Number()) }

// skip returns the length in bytes of what precedes the user's key in a stored key.
func (tx Txn) skip(stored []byte) uint8 {
	return uint8(tx.Space().Skip(stored)) //nolint:gosec // at most 6, the longest prefix
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

// Range returns the bounds of a range of users' keys as bounds of stored keys. A nil k
// is the default keyspace. A nil bound is that of the keyspace.
func (k *Keyspace) Range(lo, hi []byte) (lower, upper []byte) {
	if k != nil && k.versions != nil {
		lo, hi = encodeBound(lo), encodeBound(hi)
	}
	var b translated
	b.set(k.translation(), lo, hi)
	return b.lower, b.upper
}

// PrefixRange is Range for the keys that start with prefix.
func (k *Keyspace) PrefixRange(prefix []byte) (lower, upper []byte) {
	return k.Range(bytes.Clone(prefix), base.PrefixEnd(bytes.Clone(prefix)))
}

// CheckPrefix returns ErrKeyTooLarge for a prefix that is longer than any key. A nil k is
// the default keyspace.
func (k *Keyspace) CheckPrefix(prefix []byte) error {
	switch {
	case len(prefix) == 0:
		return nil
	case k != nil && k.versions != nil:
		return checkTimedKey(prefix)
	}
	return checkKey(prefix)
}

// Handle returns the handle that Engine.Keyspace was given.
func (k *Keyspace) Handle() *spaces.Handle { return k.handle }

// Timed reports whether the caller chooses the timestamps.
func (k *Keyspace) Timed() bool { return k.versions != nil }

// Usable returns an error if the keyspace belongs to another database, or is dropped.
func (k *Keyspace) Usable(e *Engine) error {
	if err := k.of(e); err != nil {
		return err
	}
	if k.handle.Gate.IsShut() {
		return k.gone()
	}
	return nil
}

// encodeBound returns what separates all versions of smaller keys from those of key and
// greater keys. It returns nil for nil.
func encodeBound(key []byte) []byte {
	if key == nil {
		return nil
	}
	return stamp.AppendKey(nil, key)
}

// discarded returns the error for a timestamp below the discard point of the keyspace.
func (k *Keyspace) discarded(at, floor uint64) error {
	return fmt.Errorf("%w: %d, but keyspace %q discards below %d", base.ErrTimestampDiscarded, at, k.handle.Name, floor)
}
