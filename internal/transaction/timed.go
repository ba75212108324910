package transaction

import (
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/stamp"
)

// A TimedTxn is stoat.TimedTxn.
type TimedTxn struct {
	tx  Txn // in Keyspace.versions, or in any other keyspace, which is misuse
	err error
	at  uint64
	// admitted says that the timestamp was not discarded when Admit was called.
	admitted bool
}

// At is stoat.Txn.At.
func (tx Txn) At(timestamp uint64) TimedTxn {
	if ks := tx.in; ks != nil && ks.versions != nil {
		tx.in = ks.versions
		return TimedTxn{tx: tx, at: timestamp}
	}
	return TimedTxn{tx: tx, at: timestamp, err: ErrNoTimestamps}
}

// ErrNoTimestamps is the error of a TimedTxn of a keyspace without timestamps.
var ErrNoTimestamps = base.Invalid("the keyspace has no timestamps; see KeyspaceOptions.Timestamps")

// Timestamp is stoat.TimedTxn.Timestamp.
func (t TimedTxn) Timestamp() uint64 { return t.at }

// check returns the error of operations at the timestamp, or nil.
func (t TimedTxn) check() error {
	if t.err != nil {
		return t.err
	}
	if err := t.tx.readable(); err != nil {
		return err
	}
	if floor := t.tx.in.handle.Gate.Floor(); t.at < floor && !t.admitted {
		return t.tx.in.discarded(t.at, floor)
	}
	return nil
}

// Admit returns the same transaction, whose iterators begin also when the timestamp is
// discarded later. The snapshot keeps what they read, if it is that of a read-only
// transaction.
func (t TimedTxn) Admit() (TimedTxn, error) {
	err := t.check()
	t.admitted = err == nil
	return t, err
}

// checkTimedKey returns the error for a key of a keyspace with timestamps, or nil.
func checkTimedKey(key []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if n := stamp.EncodedSize(key); n > base.UserKeyMax {
		return fmt.Errorf("%w: %d bytes with its timestamp, of at most %d", base.ErrKeyTooLarge, n, base.UserKeyMax)
	}
	return nil
}

// Set is stoat.TimedTxn.Set.
func (t TimedTxn) Set(key, value []byte, o Metadata) error {
	return t.write(key, value, timedMeta(t.tx.metaOf(o)))
}

// SetReader is stoat.TimedTxn.SetReader.
func (t TimedTxn) SetReader(key []byte, r io.Reader, o Metadata) error {
	if err := t.checkWrite(key); err != nil {
		return err
	}
	encoded := stamp.Append(nil, key, t.at)
	return t.tx.setReader(encoded, r, func() base.Meta { return timedMeta(t.tx.metaOf(o)) })
}

// Delete is stoat.TimedTxn.Delete.
func (t TimedTxn) Delete(key []byte) error {
	return t.write(key, nil, base.Meta{Kind: base.KindStampDelete})
}

// PurgeRange is stoat.TimedTxn.PurgeRange.
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
