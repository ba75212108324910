package stoat

import (
	"io"
	"time"

	"github.com/stoatdb/stoat/internal/transaction"
)

// An Item is one version of one key. It is borrowed. An Item of an iterator is
// valid until the iterator moves, an Item of GetItem until the transaction ends.
type Item struct{ i transaction.Item }

// Key returns the key, or nil once the transaction has ended.
func (i Item) Key() []byte { return i.i.Key() }

// KeyCopy appends the key to dst and returns the result.
func (i Item) KeyCopy(dst []byte) []byte { return i.i.KeyCopy(dst) }

// Value returns the value, which is valid until the transaction ends. If the item comes
// from an iterator with KeysOnly, Value returns nil, and ValueCopy and Reader no bytes.
func (i Item) Value() ([]byte, error) { return i.i.Value() }

// ValueCopy appends the value to dst and returns the result.
func (i Item) ValueCopy(dst []byte) ([]byte, error) { return i.i.ValueCopy(dst) }

// ValueSize returns the length of the value in bytes, without reading the value.
// Once the transaction has ended, it returns 0.
func (i Item) ValueSize() int64 { return i.i.ValueSize() }

// Reader returns a reader of the value, which needs little memory for any length of
// the value. After the end of the transaction, the reader returns ErrTxnDone. After
// the end of the database or of the transaction's context, it returns the error
// that the transaction returns.
func (i Item) Reader() (io.ReadSeeker, error) { return i.i.Reader() }

// Version returns the version of the transaction that wrote the item. It returns 0
// for a write of the reading transaction itself.
func (i Item) Version() uint64 { return i.i.Version() }

// Timestamp returns the timestamp of the version, if the item is of a keyspace with
// timestamps. Otherwise, and once the transaction has ended, it returns 0.
func (i Item) Timestamp() uint64 { return i.i.Timestamp() }

// ExpiresAt returns the time when the item expires, or the zero time if it never
// does.
func (i Item) ExpiresAt() time.Time { return i.i.ExpiresAt() }

// UserMeta returns the byte that the option UserMeta attached to the value, or 0.
func (i Item) UserMeta() byte { return i.i.UserMeta() }

// Deleted reports whether the item marks a deletion by Delete, or stands for a value that
// expired and that a background job has removed. An expired value that is still there is
// not Deleted: ExpiresAt tells. Only iterators with AllVersions show such items.
func (i Item) Deleted() bool { return i.i.Deleted() }
