package stoat

import (
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/values"
)

// An Item is one version of one key. It is borrowed: valid until the iterator
// it came from moves, or for GetItem until the transaction ends.
type Item struct {
	tx       *Txn
	entry    base.Entry
	turn     uint32 // of tx, which may be another transaction later
	keysOnly bool   // the value was left alone: its bytes mean nothing
}

// Key returns the key.
func (i Item) Key() []byte { return i.entry.Key }

// KeyCopy appends the key to dst.
func (i Item) KeyCopy(dst []byte) []byte { return append(dst, i.entry.Key...) }

// ended reports whether what the item holds may be somebody else's memory.
func (i Item) ended() bool { return i.tx != nil && (i.tx.done || i.tx.turn != i.turn) }

// check reports why nothing can be read for the item.
func (i Item) check() error {
	switch {
	case i.tx == nil:
		return nil
	case i.ended():
		return ErrTxnDone
	}
	return i.tx.check()
}

// Value returns the value, borrowed until the transaction ends. It is nil when
// the item comes from an iterator over keys only.
func (i Item) Value() ([]byte, error) {
	if i.ended() {
		return nil, ErrTxnDone
	}
	if i.keysOnly {
		return nil, nil
	}
	if i.entry.Meta.Kind == base.KindPointer {
		v, err := i.tx.fetch(i.entry.Value, i.entry.Key, i.entry.Seq)
		if err != nil {
			return nil, err
		}
		return i.tx.lend(v), nil
	}
	return i.entry.Value, nil
}

// ValueCopy appends the value to dst.
func (i Item) ValueCopy(dst []byte) ([]byte, error) {
	v, err := i.Value()
	if err != nil {
		return dst, err
	}
	return copyBorrowed(dst, v)
}

// ValueSize returns the length of the value in bytes, for as long as the
// transaction is open. It reads no value.
func (i Item) ValueSize() int64 {
	if i.entry.Meta.Kind != base.KindPointer {
		return int64(len(i.entry.Value))
	}
	if i.ended() {
		return 0
	}
	p, err := decodePointer(i.entry.Value)
	if err != nil {
		return 0 // whoever reads the value is told
	}
	return int64(p.ValueLen)
}

// decodePointer decodes a borrowed pointer.
func decodePointer(borrowed []byte) (p values.Pointer, err error) {
	if !guarded() {
		defer unguard(&err)
	}
	return values.DecodePointer(borrowed)
}

// Version returns the version of the transaction that wrote the item, or 0
// for a write of the transaction that is reading.
func (i Item) Version() uint64 {
	if i.entry.Seq > base.SeqNumMax {
		return 0
	}
	return uint64(i.entry.Seq)
}

// ExpiresAt returns when the item expires, or the zero time for never.
func (i Item) ExpiresAt() time.Time {
	if i.entry.Meta.ExpiresAt == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(i.entry.Meta.ExpiresAt))
}

// UserMeta returns the byte that was attached with UserMeta, or 0.
func (i Item) UserMeta() byte { return i.entry.Meta.User }

// Deleted reports whether the item marks a deletion by Delete, or that a value was
// there which has expired, of which nothing else may be left. Only iterators over
// all versions show such items.
func (i Item) Deleted() bool { return i.entry.Meta.Kind == base.KindDelete }
