package stoat

import (
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/values"
)

// An Item is one version of one key. It is borrowed: valid until the iterator
// it came from moves, or for GetItem until the transaction ends.
type Item struct {
	tx       *Txn
	entry    base.Entry
	keysOnly bool // the value was left alone: its bytes mean nothing
}

// Key returns the key, or nil once the transaction has ended.
func (i Item) Key() []byte {
	if i.ended() {
		return nil
	}
	return i.entry.Key
}

// KeyCopy appends the key to dst.
func (i Item) KeyCopy(dst []byte) []byte { return append(dst, i.Key()...) }

// ended reports whether another transaction may have the memory of the item.
func (i Item) ended() bool { return i.tx != nil && i.tx.ended() }

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

// ValueSize returns the length of the value in bytes, or 0 once the transaction
// has ended. It reads no value.
func (i Item) ValueSize() int64 {
	if i.ended() {
		return 0
	}
	if i.entry.Meta.Kind != base.KindPointer {
		return int64(len(i.entry.Value))
	}
	p, err := decodePointer(i.entry.Value)
	if err != nil {
		return 0 // whoever reads the value is told
	}
	return int64(p.ValueLen)
}

// decodePointer decodes a borrowed pointer.
func decodePointer(borrowed []byte) (p values.Pointer, err error) {
	defer fault.Enter().Leave(&err)
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
