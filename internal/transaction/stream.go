package transaction

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/values"
)

// SetReader is stoat.Txn.SetReader.
func (tx Txn) SetReader(key []byte, r io.Reader, o Metadata) error {
	return tx.setReader(key, r, func() base.Meta { return tx.metaOf(o) })
}

// setReader is SetReader with what gives the metadata once the value was read.
func (tx Txn) setReader(key []byte, r io.Reader, meta func() base.Meta) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	if r == nil {
		return base.Invalid("the reader is nil")
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
	return tx.SetStream(key, io.MultiReader(&begun, r), meta())
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
	if err := c.tx.Check(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(b)
	if n < 0 || n > len(b) {
		return 0, base.Invalid("the reader returned %d bytes for a buffer of %d", n, len(b))
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
	apart := commit.ApartMin(tx.s.engine.MemtableSize)
	if tx.s.writes.Large < tx.s.engine.MemtableSize {
		return apart
	}
	return min(tx.settings().LargeValueThreshold, apart)
}

// SetStream writes the value that r returns to its own file, and gives it to key.
func (tx Txn) SetStream(key []byte, r io.Reader, m base.Meta) error {
	if err := tx.writable(key); err != nil { // the caller's reader ended the transaction
		return err
	}
	m.Kind = base.KindPointer
	fitting := tx.s.engine.Space.NewReader(tx.context(), r)
	defer fitting.Close()
	stored := bytes.Clone(tx.keyToWrite(key)) // the caller's reader may write, too
	s, pointer, err := tx.s.engine.Streams.Write(stored, fitting)
	if errors.Is(err, values.ErrTooLarge) {
		err = fmt.Errorf("stream a value: %w", base.ErrValueTooLarge)
	}
	if err != nil {
		return err
	}
	if err := tx.writable(key); err != nil { // or it did so now
		tx.s.engine.Streams.Remove(s.File.File)
		return err
	}
	tx.s.writes.Adds = true
	tx.s.writes.Streams = append(tx.s.writes.Streams, s)
	return tx.setStored(stored, pointer.AppendTo(nil), m)
}
