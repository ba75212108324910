package stoat

import (
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/stamp"
)

// Timestamps says how a keyspace treats the timestamps that the caller chooses. See
// Txn.At.
type Timestamps uint8

const (
	// TimestampsChecked: a transaction conflicts if another commit changes what it
	// read at a timestamp.
	TimestampsChecked Timestamps = manifest.TimestampsChecked
	// TimestampsUnchecked: reads at a timestamp never conflict. The caller has its own
	// checks, or needs none.
	TimestampsUnchecked Timestamps = manifest.TimestampsUnchecked
)

// change puts t into the settings of a keyspace.
func (t Timestamps) change(m *manifest.Settings, created bool) error {
	switch {
	case t == 0 || uint8(t) == m.Timestamps:
		return nil
	case t > TimestampsUnchecked:
		return invalid("KeyspaceOptions.Timestamps is %d", t)
	case m.Timestamps == 0 && !created:
		return invalid("KeyspaceOptions.Timestamps is %d, but the keyspace was created without timestamps", t)
	}
	m.Timestamps = uint8(t)
	return nil
}

// A TimedTxn is a transaction in a keyspace with timestamps, at one timestamp. Txn.At
// makes it. Reads find the latest version of each key that is not after the
// timestamp. Writes make versions at the timestamp.
//
// A TimedTxn is a small value, and belongs to the transaction that it was made of:
// Commit, Discard and Err are those of the Txn.
type TimedTxn struct {
	tx  Txn // in Keyspace.versions, or in any other keyspace, which is misuse
	err error
	at  uint64
}

// At returns the transaction at a timestamp. The keyspace of tx must have been created
// with KeyspaceOptions.Timestamps. Otherwise all operations of the result return
// ErrInvalid.
//
// A timestamp is any number of the caller's. Versions may arrive in any order, and one
// transaction may read and write at any number of timestamps. All its writes become
// visible in one step, as those in other keyspaces. A second write of a key at the same
// timestamp replaces the first.
//
// Item.Version and ReadVersion remain the versions of transactions, which grow with
// each commit. A reader sees the versions whose transactions its own snapshot
// includes.
//
// Operations at a timestamp below Keyspace.DiscardedBelow return
// ErrTimestampDiscarded.
func (tx Txn) At(timestamp uint64) TimedTxn {
	if ks := tx.in; ks != nil && ks.versions != nil {
		tx.in = ks.versions
		return TimedTxn{tx: tx, at: timestamp}
	}
	return TimedTxn{tx: tx, at: timestamp, err: errNoTimestamps}
}

// errNoTimestamps is the error of a TimedTxn of a keyspace without timestamps.
var errNoTimestamps = invalid("the keyspace has no timestamps; see KeyspaceOptions.Timestamps")

// Timestamp returns the timestamp that At was given.
func (t TimedTxn) Timestamp() uint64 { return t.at }

// check returns the error of operations at the timestamp, or nil.
func (t TimedTxn) check() error {
	if t.err != nil {
		return t.err
	}
	if err := t.tx.check(); err != nil {
		return err
	}
	if err := t.tx.in.readable(t.tx); err != nil {
		return err
	}
	if floor := t.tx.in.handle.Gate.Floor(); t.at < floor {
		return t.tx.in.discarded(t.at, floor)
	}
	return nil
}

// discarded returns the error for a timestamp below the discard point of the keyspace.
func (k *Keyspace) discarded(at, floor uint64) error {
	return fmt.Errorf("%w: %d, but keyspace %q discards below %d", ErrTimestampDiscarded, at, k.Name(), floor)
}

// checkTimedKey returns the error for a key of a keyspace with timestamps, or nil.
func checkTimedKey(key []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if n := stamp.EncodedSize(key); n > MaxKeySize {
		return fmt.Errorf("%w: %d bytes with its timestamp, of at most %d", ErrKeyTooLarge, n, MaxKeySize)
	}
	return nil
}

// Set gives key a value from the timestamp on, up to the next version. It copies key
// and value. A key takes 10 bytes more than in other keyspaces, and one more for each
// of its zero bytes. With these it may have MaxKeySize bytes.
//
// A value with a time to live hides earlier versions even after it has expired. The key
// then has no value from the timestamp on, up to the next version.
func (t TimedTxn) Set(key, value []byte, opts ...SetOption) error {
	return t.write(key, value, timedMeta(t.tx.metaOf(opts)))
}

// SetReader is Txn.SetReader at the timestamp.
func (t TimedTxn) SetReader(key []byte, r io.Reader, opts ...SetOption) error {
	if err := t.checkWrite(key); err != nil {
		return err
	}
	encoded := stamp.Append(nil, key, t.at)
	return t.tx.setReader(encoded, r, func() base.Meta { return timedMeta(t.tx.metaOf(opts)) })
}

// Delete takes the value of key away from the timestamp on, up to the next version.
// Reads at earlier timestamps still find it.
func (t TimedTxn) Delete(key []byte) error {
	return t.write(key, nil, base.Meta{Kind: base.KindStampDelete})
}

// PurgeRange removes all versions of all keys from lo (inclusive) to hi (exclusive), at
// all timestamps. nil is no bound. Apart from that it is like Txn.DeleteRange. No
// method deletes a range of keys at a timestamp: that takes a version of each key.
func (t TimedTxn) PurgeRange(lo, hi []byte) error {
	if t.err != nil {
		return t.err
	}
	for _, bound := range [][]byte{lo, hi} {
		if len(bound) > 0 {
			if err := checkTimedKey(bound); err != nil {
				return err
			}
		}
	}
	return t.tx.DeleteRange(encodeBound(lo), encodeBound(hi))
}

// checkWrite returns the error of a write of key at the timestamp. If there is none,
// the commit will check the timestamp again.
func (t TimedTxn) checkWrite(key []byte) error {
	if err := t.check(); err != nil {
		return err
	}
	if err := t.tx.checkWrite(); err != nil {
		return err
	}
	if err := checkTimedKey(key); err != nil {
		return err
	}
	t.tx.s.writes.PassAt(&t.tx.in.handle.Gate, t.at)
	return nil
}

func (t TimedTxn) write(key, value []byte, m base.Meta) error {
	if err := t.checkWrite(key); err != nil {
		return err
	}
	var buf keyBuffer
	return t.tx.write(stamp.Append(buf[:0], key, t.at), value, m)
}

// timedMeta turns the metadata of an entry into that of a version.
func timedMeta(m base.Meta) base.Meta {
	if m.ExpiresAt != 0 {
		m.ExpiresAt |= stamp.ExpiryMark
	}
	return m
}

// plainMeta is the inverse of timedMeta. A deletion becomes a tombstone.
func plainMeta(m base.Meta) base.Meta {
	m.ExpiresAt &^= stamp.ExpiryMark
	if m.Kind == base.KindStampDelete {
		m.Kind = base.KindDelete
	}
	return m
}

// encodeBound returns what separates all versions of smaller keys from those of key and
// greater keys. It returns nil for nil.
func encodeBound(key []byte) []byte {
	if key == nil {
		return nil
	}
	return stamp.AppendKey(nil, key)
}

// encoded returns the bounds of a range of users' keys as bounds of what the keyspace
// stores. A nil k is the default keyspace.
func (k *Keyspace) encoded(lo, hi []byte) (lower, upper []byte) {
	if k == nil || k.versions == nil {
		return lo, hi
	}
	return encodeBound(lo), encodeBound(hi)
}

// DiscardBelow says that no reader will read at a timestamp below the given one. Later
// reads and writes below it, and commits of versions below it, return
// ErrTimestampDiscarded. Transactions that began to iterate before go on.
//
// Compactions to the last level then drop what no reader can find: of each key, all
// versions before the latest one that is not after the timestamp. They drop that one
// too if it is a deletion or has expired. Compact frees all of it at once.
//
// The timestamp is durable when DiscardBelow returns. A timestamp below an earlier one
// changes nothing.
func (k *Keyspace) DiscardBelow(timestamp uint64) error {
	if k.versions == nil {
		return errNoTimestamps
	}
	if k.db.opts.ReadOnly {
		return ErrReadOnly
	}
	return k.db.spaces.DiscardBelow(k.handle, timestamp)
}

// DiscardedBelow returns the greatest timestamp that DiscardBelow was given, or 0.
func (k *Keyspace) DiscardedBelow() uint64 {
	if k.versions == nil {
		return 0
	}
	return k.handle.Gate.Floor()
}
