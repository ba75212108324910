package transaction

import (
	"bytes"
	"io"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/stamp"
	"github.com/stoatdb/stoat/internal/values"
)

// An Item is stoat.Item.
type Item struct {
	tx       Txn
	entry    base.Entry
	skip     uint8 // the length of the prefix of entry.Key, which is a stored key
	keysOnly bool  // the value was not read: its bytes mean nothing
	timed    bool  // the key is encoded with a timestamp, by package stamp
}

// Key is stoat.Item.Key.
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

// Timestamp is stoat.Item.Timestamp.
func (i Item) Timestamp() uint64 {
	if !i.timed || i.ended() {
		return 0
	}
	at, _ := stamp.Of(i.entry.Key)
	return at
}

// KeyCopy is stoat.Item.KeyCopy.
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
		return base.ErrTxnDone
	}
	return i.tx.Check()
}

// Value is stoat.Item.Value.
func (i Item) Value() ([]byte, error) {
	if i.ended() {
		return nil, base.ErrTxnDone
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

// ValueCopy is stoat.Item.ValueCopy.
func (i Item) ValueCopy(dst []byte) ([]byte, error) {
	v, err := i.Value()
	if err != nil {
		return dst, err
	}
	all, err := copyBorrowed(dst, v)
	return all, i.tx.noteRead(err)
}

// ValueSize is stoat.Item.ValueSize.
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

// Version is stoat.Item.Version.
func (i Item) Version() uint64 {
	if i.entry.Seq > base.SeqNumMax {
		return 0
	}
	return uint64(i.entry.Seq)
}

// ExpiresAt is stoat.Item.ExpiresAt.
func (i Item) ExpiresAt() time.Time { return base.ExpiryTime(i.entry.Meta.ExpiresAt) }

// UserMeta is stoat.Item.UserMeta.
func (i Item) UserMeta() byte { return i.entry.Meta.User }

// Deleted is stoat.Item.Deleted.
func (i Item) Deleted() bool { return i.entry.Meta.Kind == base.KindDelete }

// Reader is stoat.Item.Reader.
func (i Item) Reader() (io.ReadSeeker, error) {
	r, err := i.reader()
	if err != nil {
		return nil, err
	}
	return itemReader{i, r}, nil
}

func (i Item) reader() (value io.ReadSeeker, err error) {
	if i.ended() || i.entry.Meta.Kind != base.KindPointer || i.keysOnly {
		v, err := i.ValueCopy(nil)
		return bytes.NewReader(v), err
	}
	defer func() { i.tx.noteRead(err) }()
	defer fault.Enter().Leave(&err)
	r, p, err := i.tx.valueReader(i.entry.Value, i.entry.Seq)
	if err != nil {
		return nil, err
	}
	return r.NewValueReader(p, i.entry.Key, i.entry.Seq)
}

// An itemReader reads the value of an item while the transaction is open. After
// that the file may be gone, and reading it would look like damage.
type itemReader struct {
	item  Item
	value io.ReadSeeker
}

func (r itemReader) Read(b []byte) (int, error) {
	if err := r.item.check(); err != nil {
		return 0, err
	}
	n, err := r.value.Read(b)
	if err != nil && err != io.EOF {
		r.item.tx.noteRead(err)
	}
	return n, err
}

func (r itemReader) Seek(offset int64, whence int) (int64, error) {
	if err := r.item.check(); err != nil {
		return 0, err
	}
	return r.value.Seek(offset, whence)
}
