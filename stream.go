package stoat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

// A streamed is a value that a transaction was given as a reader: it is in a
// value file of its own already, which becomes a part of the database with the
// commit.
type streamed struct {
	file   *manifest.ValueFile
	reader *values.Reader // for the transaction itself, once it asked
	kept   bool           // the manifest knows the file
}

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

// streamBuffered is more than is buffered of what was read and is to be written.
const streamBuffered = 3 << 19

// A roomReader is a reader of what is written to the disk as it is read. How much
// that will be shows at its end. So room for each part is promised before the part
// is read, and where there is none the reader fails: the room that deleting needs
// is not for values.
type roomReader struct {
	r        io.Reader
	room     *diskRoom
	ctx      context.Context
	promised int64 // for what may not have come to the disk yet
}

func (r *roomReader) Read(b []byte) (int, error) {
	most := int64(len(b))
	if err := r.room.admit(r.ctx, most); err != nil {
		return 0, err
	}
	r.promised += most
	n, err := r.r.Read(b)
	unused := most - int64(n)
	r.room.left.Add(unused)
	r.keep(min(r.promised-unused, streamBuffered))
	return n, err
}

// keep ends the promise but for so many bytes.
func (r *roomReader) keep(bytes int64) {
	r.room.promised.Add(bytes - r.promised)
	r.promised = bytes
}

// streamedFrom is the length from which on a value that is given as a reader
// gets a file of its own. A transaction that has much in memory already takes
// only short values there as well.
func (tx *Txn) streamedFrom() int64 {
	if o := &tx.db.opts; tx.state.writes.large < o.MemtableSize {
		return o.apartMin()
	}
	return min(tx.db.opts.LargeValueThreshold, tx.db.opts.apartMin())
}

// setStream gives key the value that r reads, in a file of its own.
func (tx *Txn) setStream(key []byte, r io.Reader, m base.Meta) error {
	m.Kind = base.KindPointer
	fitting := roomReader{r: r, room: &tx.db.room, ctx: tx.context()}
	defer fitting.keep(0)
	s, pointer, err := tx.db.stream(key, &fitting)
	if err != nil {
		return err
	}
	if err := tx.writable(key); err != nil { // the reader has ended the transaction
		tx.db.removeStreamed(s.file.File)
		return err
	}
	tx.state.writes.adds = true
	tx.state.writes.streams = append(tx.state.writes.streams, s)
	return tx.state.writes.pending.Set(key, pointer.AppendTo(nil), base.Hash(key, tx.db.hashSeed), m, 0)
}

// stream writes what r reads into a value file. Nothing is left of that after an
// error, nor after a panic of the reader.
func (d *DB) stream(key []byte, r io.Reader) (s *streamed, at values.Pointer, err error) {
	if !d.background.enter() {
		return nil, at, ErrClosed
	}
	num, file, err := d.newValueFile()
	d.background.running.Done()
	if err != nil {
		return nil, at, err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil || s == nil {
			s = nil
			d.removeStreamed(num)
		}
	}()
	props, at, err := writeStream(file, values.WriterOptions{Num: num, Salt: rand.Uint64()}, key, r)
	if errors.Is(err, values.ErrTooLarge) {
		err = ErrValueTooLarge
	}
	if err != nil {
		return nil, at, fmt.Errorf("stream a value: %w", err)
	}
	return &streamed{file: valueFileOf(props, num)}, at, nil
}

// writeStream writes a value file of one value. Its version is not known yet:
// the file has its key once, so that the key tells the record.
func writeStream(file vfs.File, o values.WriterOptions, key []byte, r io.Reader) (p values.Properties, at values.Pointer, err error) {
	w, err := values.NewWriter(file, o)
	if err != nil {
		return p, at, err
	}
	s, err := w.Stream(key)
	if err != nil {
		return p, at, err
	}
	if _, err = s.ReadFrom(r); err != nil {
		s.Abort()
		return p, at, err
	}
	if at, err = s.Finish(0); err != nil {
		return p, at, err
	}
	p, err = w.Finish()
	return p, at, err
}

// streamOf returns the reader of a value that the transaction itself was given
// as a reader.
func (tx *Txn) streamOf(p values.Pointer) (*values.Reader, error) {
	for _, s := range tx.state.writes.streams {
		if s.file.Num != p.File {
			continue
		}
		if s.reader == nil {
			r, err := tx.db.tables.OpenValues(s.file)
			if err != nil {
				return nil, err
			}
			s.reader = r
		}
		return s.reader, nil
	}
	return nil, base.Corrupt(-1, "value file of a pointer", uint64(p.File), "one of the transaction's")
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
		r, err = tx.streamOf(p)
	case view != nil:
		r, err = view.tree.Values(p.File)
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

// dropStreams lets go of the values that the transaction of w was given as
// readers, and removes those that did not become a part of the database.
func (d *DB) dropStreams(w *writeSet) {
	for _, s := range w.streams {
		if s.reader != nil {
			_ = s.reader.Close() // it was only read
		}
		if !s.kept {
			d.removeStreamed(s.file.File)
		}
	}
	clear(w.streams)
	w.streams = w.streams[:0]
}

// removeStreamed removes a file that a value was streamed to in vain. Once the
// database is closed the directory may be somebody else's: the next Open finds
// the file and removes it.
func (d *DB) removeStreamed(n base.FileNum) {
	if d.background.enter() {
		defer d.background.running.Done()
		d.removeFile(base.ValueName(n))
	}
}
