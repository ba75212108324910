package transaction

import (
	"bytes"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/settings"
)

// Metadata is what the caller says about a value beside its bytes.
type Metadata struct {
	Expiry ExpiryKind
	Value  int64 // of Expiry
	User   byte
	Named  bool // the caller named User, which may be 0
}

// An ExpiryKind says how Metadata.Value is meant. The zero ExpiryKind is the default
// of the keyspace.
type ExpiryKind uint8

const (
	ExpiresAfter ExpiryKind = iota + 1 // nanoseconds from the write on
	ExpiresAt                          // milliseconds of Unix time
	ExpiresNever
)

// With returns m with the expiry and the byte of o, as far as the caller named them.
func (m Metadata) With(o Metadata) Metadata {
	if o.Expiry != 0 {
		m.Expiry, m.Value = o.Expiry, o.Value
	}
	if o.Named {
		m.User, m.Named = o.User, true
	}
	return m
}

// Set is stoat.Txn.Set.
func (tx Txn) Set(key, value []byte, o Metadata) error {
	return tx.write(key, value, tx.metaOf(o))
}

// metaOf returns the metadata of a write.
func (tx Txn) metaOf(o Metadata) base.Meta {
	if tx.s == nil || tx.in != nil && tx.in.engine != tx.s.engine {
		return base.Meta{} // the write will be refused
	}
	if o.Expiry == ExpiresAfter && tx.Check() != nil {
		return base.Meta{} // so will this one, without asking the clock
	}
	m := tx.s.engine.MetaOf(tx.in, o)
	if now := tx.s.now.Load(); now != 0 && o.Expiry == ExpiresAfter && o.Value <= 0 {
		m.ExpiresAt = min(m.ExpiresAt, now) // also for the transaction, whose time may be earlier
	}
	return m
}

// MetaOf returns the metadata of a value that is set in a keyspace now. A nil ks is the
// default keyspace.
func (e *Engine) MetaOf(ks *Keyspace, o Metadata) base.Meta {
	m := base.Meta{Kind: base.KindSet, User: o.User}
	switch o.Expiry {
	case ExpiresAfter:
		m.ExpiresAt = e.expiryAfter(o.Value)
	case ExpiresAt:
		m.ExpiresAt = uint64(max(o.Value, 1))
	case 0:
		rules := e.Settings.Default()
		if ks != nil {
			rules = ks.settings()
		}
		if ttl := rules.DefaultTTLMs; ttl != 0 && !mutant.On(mutant.ForgetDefaultTTL) {
			m.ExpiresAt = min(e.Store.Now()+ttl, base.TimeMsMax)
		}
	}
	return m
}

// expiryAfter returns the time at which ns nanoseconds from now have passed, in
// milliseconds of Unix time.
func (e *Engine) expiryAfter(ns int64) uint64 {
	ms := ns / int64(time.Millisecond)
	if ns > ms*int64(time.Millisecond) {
		ms++
	}
	now := int64(e.Store.Now())
	return uint64(max(now+min(ms, base.TimeMsMax-now), 1))
}

// Delete is stoat.Txn.Delete.
func (tx Txn) Delete(key []byte) error {
	return tx.write(key, nil, base.Meta{Kind: base.KindDelete})
}

// boundMax is the length of the longest bound of a range deletion, in bytes. The bound behind
// the longest key has one byte more than the key. With the prefix of its keyspace, it stays
// within base.MaxKeySize.
const boundMax = base.UserKeyMax + 1

// DeleteRange is stoat.Txn.DeleteRange.
func (tx Txn) DeleteRange(lo, hi []byte) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	for _, bound := range [][]byte{lo, hi} {
		if len(bound) > boundMax {
			return fmt.Errorf("%w: a bound of %d bytes, of at most %d", base.ErrKeyTooLarge, len(bound), boundMax)
		}
	}
	if hi != nil && (bytes.Compare(lo, hi) >= 0 || bytes.Compare(hi, base.FirstKey) <= 0) {
		return nil // an empty hi, which means no bound below, ends here too
	}
	var b translated
	b.set(tx.Space(), lo, hi)
	return tx.deleteStored(b.lower, b.upper)
}

// deleteStored deletes a range of stored keys. A nil hi is the end of all keys.
func (tx Txn) deleteStored(lo, hi []byte) error {
	if len(lo) == 0 {
		lo = base.FirstKey
	}
	m := base.Meta{Kind: base.KindDeleteRange}
	return tx.s.writes.Pending.Set(lo, hi, base.Hash(lo, tx.s.engine.HashSeed), m, 0)
}

// checkWrite returns the error of writes of the transaction, or nil if it can
// write.
func (tx Txn) checkWrite() error {
	if err := tx.Check(); err != nil {
		return err
	}
	if tx.s.writes == nil {
		return base.ErrReadOnly
	}
	if tx.in != nil {
		return tx.in.enter(tx)
	}
	return nil
}

// writable returns the error of a write of key, or nil if the transaction can write
// it.
func (tx Txn) writable(key []byte) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	return checkKey(key)
}

func (tx Txn) write(key, value []byte, m base.Meta) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	if uint64(len(value)) > base.MaxValueSize {
		return fmt.Errorf("%w: %d bytes, of at most %d", base.ErrValueTooLarge, len(value), uint64(base.MaxValueSize))
	}
	tx.s.writes.Adds = tx.s.writes.Adds || m.Kind != base.KindDelete
	if len(value) >= settings.ValueThresholdMin && int64(len(value)) >= tx.settings().LargeValueThreshold {
		tx.s.writes.Large += int64(len(value))
	}
	if !tx.plain(key) {
		key = tx.keyToWrite(key)
	}
	return tx.s.writes.Pending.Set(key, value, base.Hash(key, tx.s.engine.HashSeed), m, 0)
}

// writeStored is write for a stored key that the transaction may write.
func (tx Txn) writeStored(key, value []byte, m base.Meta) error {
	w := tx.s.writes
	w.Adds = true
	if m.Kind == base.KindSet && int64(len(value)) >= tx.settings().LargeValueThreshold {
		w.Large += int64(len(value))
	}
	return tx.setStored(key, value, m)
}

// setStored puts an entry with a stored key into the transaction's writes.
func (tx Txn) setStored(key, value []byte, m base.Meta) error {
	return tx.s.writes.Pending.Set(key, value, base.Hash(key, tx.s.engine.HashSeed), m, 0)
}

// Drop deletes a range of stored keys of a keyspace. A nil ks is the default keyspace.
func (tx Txn) Drop(ks *Keyspace, lo, hi []byte) error {
	if ks != nil && ks.versions != nil {
		ks = ks.versions
	}
	if err := tx.In(ks).checkWrite(); err != nil {
		return err
	}
	return tx.deleteStored(lo, hi)
}
