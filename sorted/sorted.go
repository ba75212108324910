// Package sorted writes sorted entries to files, without a database, and ingests such files.
//
// Many programs, on many computers, can write files at the same time. [Ingest] then takes
// files whose key ranges do not overlap into a database, as one commit. It reads each file
// once, verifies every byte, and writes tables and value files of the database. So a file
// fits all databases, whatever their settings, keyspaces and encryption.
//
// A file ends with a mark, and each part of it has a checksum. So a truncated, changed or
// mixed-up file is refused. A file can be written to and read from any stream, such as a pipe.
// docs/format-backup.md describes it.
package sorted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/backup"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/work"
)

// An Entry is a key with its value.
type Entry struct {
	// Key has 1 byte to stoat.MaxKeySize. Value may be empty.
	Key, Value []byte
	// ExpiresAt is when the entry expires. The zero time leaves that to the options of the
	// ingest and to the keyspace.
	ExpiresAt time.Time
	// UserMeta is the byte that Item.UserMeta returns.
	UserMeta byte
}

// Options say how a Writer writes. The zero value of every field means its default.
type Options struct {
	// Compression is that of the file. Default: stoat.CompressionFast.
	Compression stoat.Compression
}

// A Writer writes entries to a file. One goroutine at a time uses it. It takes about a
// megabyte of memory.
type Writer struct {
	w   *backup.SortedWriter
	n   int64
	err error // of an earlier call
}

// NewWriter begins a file. It writes in pieces of a few kilobytes and more.
func NewWriter(to io.Writer, o Options) (*Writer, error) {
	if to == nil || o.Compression > stoat.CompressionSmall {
		return nil, base.Invalid("a file of sorted entries needs a writer and a known compression")
	}
	if o.Compression == 0 {
		o.Compression = stoat.CompressionFast
	}
	w, err := backup.NewSortedWriter(to, rand.Uint64(), settings.Compression(o.Compression))
	return &Writer{w: w}, err
}

// Add adds an entry. Its key must be greater than the one before, or the error is a
// *stoat.KeyOrderError. Add copies what it needs. After an error, the file is of no use, and
// all later calls return that error.
func (w *Writer) Add(e Entry) error {
	if w.err == nil {
		if w.err = w.add(e); w.err == nil {
			w.n++
		}
	}
	return w.err
}

func (w *Writer) add(e Entry) error {
	switch {
	case len(e.Key) == 0:
		return fmt.Errorf("entry %d: %w", w.n, stoat.ErrEmptyKey)
	case len(e.Key) > stoat.MaxKeySize:
		return fmt.Errorf("entry %d: %w: %d bytes, of at most %d", w.n, stoat.ErrKeyTooLarge, len(e.Key), stoat.MaxKeySize)
	case uint64(len(e.Value)) > stoat.MaxValueSize:
		return fmt.Errorf("entry %d: %w: %d bytes", w.n, stoat.ErrValueTooLarge, len(e.Value))
	}
	stored := base.Entry{Key: e.Key, Value: e.Value, Meta: base.Meta{User: e.UserMeta}}
	if !e.ExpiresAt.IsZero() {
		stored.Meta.ExpiresAt = uint64(base.ExpiryMs(e.ExpiresAt))
	}
	err := w.w.Add(&stored)
	var order *base.KeyOrderError
	if errors.As(err, &order) {
		return (*stoat.KeyOrderError)(order)
	}
	return err
}

// Finish ends the file. It neither syncs nor closes what the caller gave to NewWriter.
// Without Finish, the file is refused.
func (w *Writer) Finish() error {
	if w.err != nil {
		return w.err
	}
	if w.err = w.w.Finish(); w.err != nil {
		return w.err
	}
	w.err = errFinished
	return nil
}

var errFinished = fmt.Errorf("%w: the file is finished", stoat.ErrInvalid)

// A Reader reads the entries of a file.
type Reader struct {
	r *backup.SortedReader
}

// NewReader reads the beginning of a file. It reads in pieces, some of a few bytes, so from
// may want a buffer.
func NewReader(from io.Reader) (*Reader, error) {
	if from == nil {
		return nil, base.Invalid("the reader of a file of sorted entries is nil")
	}
	r, err := backup.NewSortedReader(from)
	if err != nil {
		return nil, err
	}
	return &Reader{r: r}, nil
}

// Next returns the next entry, whose key and value are valid until the call after. The error
// is io.EOF when all entries were read and the whole file has verified. It is
// stoat.ErrCorrupt if the file is damaged or incomplete.
func (r *Reader) Next() (Entry, error) {
	e, err := r.r.Next()
	if err != nil {
		return Entry{}, err
	}
	entry := Entry{Key: e.Key, Value: e.Value, UserMeta: e.Meta.User}
	if at := e.Meta.ExpiresAt; at != 0 {
		entry.ExpiresAt = timeOf(at)
	}
	return entry, nil
}

// timeOf returns a stored expiry time.
func timeOf(at uint64) time.Time { return time.UnixMilli(int64(at)) }

// An Info describes a file.
type Info struct {
	// Entries counts the entries. First and Last are the least and the greatest key.
	Entries     int64
	First, Last []byte
}

// Verify reads a file to its end.
func Verify(ctx context.Context, from io.Reader) (info Info, err error) {
	ctx = work.Given(ctx)
	r, err := NewReader(from)
	for err == nil {
		var e Entry
		if e, err = r.Next(); err != nil {
			break
		}
		if info.Entries++; info.Entries == 1 {
			info.First = bytes.Clone(e.Key)
		}
		info.Last = append(info.Last[:0], e.Key...)
		if info.Entries%1024 == 0 {
			err = ctx.Err()
		}
	}
	if err != io.EOF {
		return Info{}, err
	}
	return info, nil
}
