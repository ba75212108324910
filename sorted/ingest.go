package sorted

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// ErrOverlap says that the ranges of keys of two files overlap. It is a stoat.ErrInvalid.
var ErrOverlap = fmt.Errorf("%w: files of sorted entries overlap", stoat.ErrInvalid)

// A Database is what Ingest needs of an open database. *stoat.DB is one.
type Database interface {
	// IngestEntries commits sorted entries.
	IngestEntries(ctx context.Context, entries iter.Seq2[stoat.Entry, error], o stoat.IngestOptions) (stoat.Ingested, error)
}

// Ingest commits the entries of files, in any order, as DB.IngestEntries does: all of them or
// none. The ranges of keys of the files must not overlap, or the error is ErrOverlap. If a
// file is damaged or incomplete, it is stoat.ErrCorrupt. A nil fs is the file system of the
// operating system. Ingest does not change the files.
func Ingest(ctx context.Context, db Database, fs vfs.FS, files []string, o stoat.IngestOptions) (stoat.Ingested, error) {
	if fs == nil {
		fs = vfs.OS()
	}
	var parts []part
	for _, name := range files {
		p := part{fs: fs, name: name}
		if err := p.first(); err != nil {
			return stoat.Ingested{}, err
		}
		if p.least != nil {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(bytes.Compare(a.least, b.least), cmp.Compare(a.name, b.name)) })
	return db.IngestEntries(ctx, func(yield func(stoat.Entry, error) bool) {
		for i := range parts {
			end := []byte(nil)
			if i+1 < len(parts) {
				end = parts[i+1].least
			}
			on, err := parts[i].each(func(e *base.Entry) (bool, error) {
				if end != nil && bytes.Compare(e.Key, end) >= 0 {
					return false, fmt.Errorf("%w: %s has the key %.80q, and %s begins with %.80q", ErrOverlap, parts[i].name, e.Key, parts[i+1].name, end)
				}
				return yield(entryOf(e), nil), nil
			})
			if err != nil {
				yield(stoat.Entry{}, err)
			}
			if err != nil || !on {
				return
			}
		}
	}, o)
}

// entryOf returns an entry with its options.
func entryOf(e *base.Entry) stoat.Entry {
	entry := stoat.Entry{Key: e.Key, Value: e.Value}
	if e.Meta.User != 0 {
		entry.Options = append(entry.Options, stoat.UserMeta(e.Meta.User))
	}
	if at := e.Meta.ExpiresAt; at != 0 {
		entry.Options = append(entry.Options, stoat.ExpiresAt(timeOf(at)))
	}
	return entry
}

// A part is one file of an ingest.
type part struct {
	fs    vfs.FS
	name  string
	least []byte // the first key, nil if there is none
}

// readBuffer is the size in bytes of the buffer for reading a file. Most frames are longer,
// and so are read past it without a copy.
const readBuffer = 16 << 10

// open opens the file.
func (p *part) open() (*Reader, io.Closer, error) {
	file, err := p.fs.Open(p.name, vfs.CatNone)
	if err != nil {
		return nil, nil, err
	}
	size, err := file.Size()
	var r *Reader
	if err == nil {
		r, err = NewReader(bufio.NewReaderSize(io.NewSectionReader(file, 0, size), readBuffer))
	}
	if err != nil {
		return nil, nil, errors.Join(p.named(err), file.Close())
	}
	return r, file, nil
}

// named adds the name of the file to an error.
func (p *part) named(err error) error {
	err = base.InFile(err, p.fs.Base(p.name))
	return fmt.Errorf("%s: %w", p.name, err)
}

// first finds the first key.
func (p *part) first() error {
	r, file, err := p.open()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	e, err := r.Next()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return p.named(err)
	}
	p.least = bytes.Clone(e.Key)
	return nil
}

// each calls fn for all entries, until it returns false or an error. It reports whether the
// file was read to its end, and so has verified.
func (p *part) each(fn func(e *base.Entry) (bool, error)) (on bool, err error) {
	r, file, err := p.open()
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }() // it was only read
	var e base.Entry                    // one for all: fn lets it escape to the heap
	for {
		if e, err = r.r.Next(); err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, p.named(err)
		}
		if on, err := fn(&e); err != nil || !on {
			return false, err
		}
	}
}
