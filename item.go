package stoat

import (
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/stamp"
	"github.com/stoatdb/stoat/internal/values"
)

// An Item is one version of one key. It is borrowed. An Item of an iterator is
// valid until the iterator moves, an Item of GetItem until the transaction ends.
type Item struct {
	tx       Txn
	entry    base.Entry
	skip     uint8 // the length of the prefix of entry.Key, which is a stored key
	keysOnly bool  // the value was not read: its bytes mean nothing
	timed    bool  // the key is encoded with a timestamp, by package stamp
}

// Key returns the key, or nil once the transaction has ended.
func (i Item) Key() []byte {
	if i.ended() {
		return nil
	}
	if i.timed {
		key, _, _ := stamp.Decode(i.entry.Key[i.skip:], nil)
		return key
	}
	return i.entry.Key[i.skip:]
}

// Timestamp returns the timestamp of the version, if the item is of a keyspace with
// timestamps. Otherwise, and once the transaction has ended, it returns 0.
func (i Item) Timestamp() uint64 {
	if !i.timed || i.ended() {
		return 0
	}
	at, _ := stamp.Of(i.entry.Key)
	return at
}

// KeyCopy appends the key to dst and returns the result.
func (i Item) KeyCopy(dst []byte) []byte { return append(dst, i.Key()...) }

// ended reports whether the transaction has ended. Another transaction may then use
// the memory of the item.
func (i Item) ended() bool { return i.tx.s != nil && i.tx.ended() }

// check returns the error of reads of the item, or nil if the item can be read.
func (i Item) check() error {
	switch {
	case i.tx.s == nil:
		return nil
	case i.ended():
		return ErrTxnDone
	}
	return i.tx.check()
}

// Value returns the value, which is valid until the transaction ends. It returns
// nil if the item comes from an iterator with KeysOnly.
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

// ValueCopy appends the value to dst and returns the result.
func (i Item) ValueCopy(dst []byte) ([]byte, error) {
	v, err := i.Value()
	if err != nil {
		return dst, err
	}
	all, err := copyBorrowed(dst, v)
	return all, i.tx.noteRead(err)
}

// ValueSize returns the length of the value in bytes, without reading the value.
// Once the transaction has ended, it returns 0.
func (i Item) ValueSize() int64 {
	if i.ended() {
		return 0
	}
	if i.entry.Meta.Kind != base.KindPointer {
		return int64(len(i.entry.Value))
	}
	p, err := decodePointer(i.entry.Value)
	if err != nil {
		return 0 // Value returns the error
	}
	return int64(p.ValueLen)
}

// decodePointer decodes a borrowed pointer.
func decodePointer(borrowed []byte) (p values.Pointer, err error) {
	defer fault.Enter().Leave(&err)
	return values.DecodePointer(borrowed)
}

// Version returns the version of the transaction that wrote the item. It returns 0
// for a write of the reading transaction itself.
func (i Item) Version() uint64 {
	if i.entry.Seq > base.SeqNumMax {
		return 0
	}
	return uint64(i.entry.Seq)
}

// ExpiresAt returns the time when the item expires, or the zero time if it never
// does.
func (i Item) ExpiresAt() time.Time {
	if i.entry.Meta.ExpiresAt == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(i.entry.Meta.ExpiresAt))
}

// UserMeta returns the byte that the option UserMeta attached to the value, or 0.
func (i Item) UserMeta() byte { return i.entry.Meta.User }

// Deleted reports whether the item marks a deletion by Delete, or a value that has
// expired. Nothing else of the expired value may be left. Only iterators with
// AllVersions show such items.
func (i Item) Deleted() bool { return i.entry.Meta.Kind == base.KindDelete }
