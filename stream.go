package stoat

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/values"
)

// SetReader gives key the value that r reads to its end, at most MaxValueSize
// bytes, without holding all of it in memory: it goes straight to a file, which
// is removed again if the transaction does not commit. It suits values of many
// megabytes; Item.Reader reads them in the same way. One that ends within two
// megabytes or less is not worth a file, and is kept in memory like those of Set.
func (tx *Txn) SetReader(key []byte, r io.Reader, opts ...SetOption) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	if r == nil {
		return invalid("the reader is nil")
	}
	var begun bytes.Buffer
	atMost := tx.streamedFrom()
	r = &givenReader{r: r, tx: tx}
	switch n, err := io.CopyN(&begun, r, atMost); {
	case err == io.EOF && n < atMost: // an error that wraps it is a failure of the reader
		return tx.write(key, begun.Bytes(), tx.metaOf(opts))
	case err != nil:
		return fmt.Errorf("stream a value: %w", err)
	}
	return tx.setStream(key, io.MultiReader(&begun, r), tx.metaOf(opts))
}

// emptyReadsMax is how many times in a row a reader may give nothing.
const emptyReadsMax = 100

// A givenReader is a reader that SetReader was given. It ends with an error when
// the transaction can not be used any more, which may be its own doing, when it
// gives nothing again and again, and when it gives what no reader can.
type givenReader struct {
	r     io.Reader
	tx    *Txn
	empty int
}

func (g *givenReader) Read(b []byte) (int, error) {
	if err := g.tx.check(); err != nil {
		return 0, err
	}
	n, err := g.r.Read(b)
	if n < 0 || n > len(b) {
		return 0, invalid("the reader says that it has read %d bytes of %d", n, len(b))
	}
	if g.empty++; n > 0 {
		g.empty = 0
	}
	if err == nil && g.empty == emptyReadsMax {
		err = io.ErrNoProgress
	}
	return n, err
}

// streamedFrom is the length from which on a value that is given as a reader
// gets a file of its own. A transaction that has much in memory already takes
// only short values there as well.
func (tx *Txn) streamedFrom() int64 {
	if o := &tx.db.opts; tx.state.writes.Large < o.MemtableSize {
		return commit.ApartMin(o.MemtableSize)
	}
	return min(tx.db.opts.LargeValueThreshold, commit.ApartMin(tx.db.opts.MemtableSize))
}

// setStream gives key the value that r reads, in a file of its own.
func (tx *Txn) setStream(key []byte, r io.Reader, m base.Meta) error {
	m.Kind = base.KindPointer
	fitting := tx.db.space.NewReader(tx.context(), r)
	defer fitting.Close()
	s, pointer, err := tx.db.streams.Write(key, fitting)
	if errors.Is(err, values.ErrTooLarge) {
		err = fmt.Errorf("stream a value: %w", ErrValueTooLarge)
	}
	if err != nil {
		return err
	}
	if err := tx.writable(key); err != nil { // the reader has ended the transaction
		tx.db.streams.Remove(s.File.File)
		return err
	}
	tx.state.writes.Adds = true
	tx.state.writes.Streams = append(tx.state.writes.Streams, s)
	return tx.state.writes.Pending.Set(key, pointer.AppendTo(nil), base.Hash(key, tx.db.hashSeed), m, 0)
}

// valueReader returns the reader of the file that a pointer leads to.
func (tx *Txn) valueReader(pointer []byte, seq base.SeqNum) (*values.Reader, values.Pointer, error) {
	p, err := values.DecodePointer(pointer)
	if err != nil {
		return nil, p, err
	}
	var r *values.Reader
	view := tx.view
	switch own := seq == 0 || seq > base.SeqNumMax; {
	case own && tx.state.writes != nil:
		r, err = tx.db.streams.Reader(tx.state.writes.Streams, p)
	case view != nil:
		r, err = view.Tree.Values(p.File)
	default:
		err = ErrTxnDone
	}
	return r, p, err
}

// Reader returns a reader of the value, which needs little memory however long
// the value is. Once the transaction has ended it answers ErrTxnDone, and once the
// database or the transaction's context has, what the transaction answers.
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

// An itemReader reads the value of an item for as long as the transaction is open.
// After that the file may be gone, and would seem to be damaged.
type itemReader struct {
	item  Item
	value io.ReadSeeker
}

func (r itemReader) Read(b []byte) (int, error) {
	if err := r.item.check(); err != nil {
		return 0, err
	}
	return r.value.Read(b)
}

func (r itemReader) Seek(offset int64, whence int) (int64, error) {
	if err := r.item.check(); err != nil {
		return 0, err
	}
	return r.value.Seek(offset, whence)
}
