package stoat

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/values"
)

// SetReader gives key the value that r returns until its end, at most MaxValueSize
// bytes. It streams the value to a file instead of holding it in memory. If the
// transaction does not commit, stoat removes that file.
//
// SetReader suits values of many megabytes; Item.Reader reads them in the same way.
// SetReader keeps a value of less than two megabytes in memory, as Set does. That
// limit is lower if MemtableSize is small or the transaction already holds much.
func (tx Txn) SetReader(key []byte, r io.Reader, opts ...SetOption) error {
	return tx.setReader(key, r, func() base.Meta { return tx.metaOf(opts) })
}

// setReader is SetReader with what gives the metadata once the value was read.
func (tx Txn) setReader(key []byte, r io.Reader, meta func() base.Meta) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	if r == nil {
		return invalid("the reader is nil")
	}
	var begun bytes.Buffer
	atMost := tx.streamedFrom()
	r = &callerReader{r: r, tx: tx}
	switch n, err := io.CopyN(&begun, r, atMost); {
	case err == io.EOF && n < atMost: // an error that wraps io.EOF is a failure of r
		return tx.write(key, begun.Bytes(), meta())
	case err != nil:
		return fmt.Errorf("stream a value: %w", err)
	}
	return tx.setStream(key, io.MultiReader(&begun, r), meta())
}

// emptyReadsMax is the number of empty reads in a row after which a callerReader
// fails.
const emptyReadsMax = 100

// A callerReader wraps the reader that the caller gave to SetReader. Its Read fails
// when
//
//   - the transaction can no longer be used, perhaps because the reader ended it;
//   - the reader returned no bytes emptyReadsMax times in a row;
//   - the reader returned an impossible count of bytes.
type callerReader struct {
	r     io.Reader
	tx    Txn
	empty int
}

func (c *callerReader) Read(b []byte) (int, error) {
	if err := c.tx.check(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(b)
	if n < 0 || n > len(b) {
		return 0, invalid("the reader returned %d bytes for a buffer of %d", n, len(b))
	}
	if c.empty++; n > 0 {
		c.empty = 0
	}
	if err == nil && c.empty == emptyReadsMax {
		err = io.ErrNoProgress
	}
	return n, err
}

// streamedFrom returns the length in bytes from which a value of SetReader gets its
// own file. When the transaction already holds many large values in memory, that
// length is smaller.
func (tx Txn) streamedFrom() int64 {
	if o := &tx.s.db.opts; tx.s.writes.Large < o.MemtableSize {
		return commit.ApartMin(o.MemtableSize)
	}
	return min(tx.settings().LargeValueThreshold, commit.ApartMin(tx.s.db.opts.MemtableSize))
}

// setStream writes the value that r returns to its own file, and gives it to key.
func (tx Txn) setStream(key []byte, r io.Reader, m base.Meta) error {
	m.Kind = base.KindPointer
	fitting := tx.s.db.space.NewReader(tx.context(), r)
	defer fitting.Close()
	stored := bytes.Clone(tx.keyToWrite(key)) // the caller's reader may write, too
	s, pointer, err := tx.s.db.streams.Write(stored, fitting)
	if errors.Is(err, values.ErrTooLarge) {
		err = fmt.Errorf("stream a value: %w", ErrValueTooLarge)
	}
	if err != nil {
		return err
	}
	if err := tx.writable(key); err != nil { // the caller's reader ended the transaction
		tx.s.db.streams.Remove(s.File.File)
		return err
	}
	tx.s.writes.Adds = true
	tx.s.writes.Streams = append(tx.s.writes.Streams, s)
	return tx.setStored(stored, pointer.AppendTo(nil), m)
}

// valueReader returns the reader of the value file that a pointer refers to, and
// the decoded pointer.
func (tx Txn) valueReader(pointer []byte, seq base.SeqNum) (*values.Reader, values.Pointer, error) {
	p, err := values.DecodePointer(pointer)
	if err != nil {
		return nil, p, err
	}
	var r *values.Reader
	view := tx.s.view
	switch own := seq == 0 || seq > base.SeqNumMax; {
	case own && tx.s.writes != nil && place.Streamed(tx.s.writes.Streams, p):
		r, err = tx.s.db.streams.Reader(tx.s.writes.Streams, p)
	case view != nil:
		r, err = view.Tree.Values(p.File)
	default:
		err = ErrTxnDone
	}
	return r, p, err
}

// Reader returns a reader of the value, which needs little memory for any length of
// the value. After the end of the transaction, the reader returns ErrTxnDone. After
// the end of the database or of the transaction's context, it returns the error
// that the transaction returns.
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
