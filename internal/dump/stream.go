package dump

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/stoatdb/stoat/internal/backup"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// listHead is the beginning of a list. A list, a backup and a file of sorted entries may have
// any name.
const listHead = "stoat file backup "

const (
	// streamBuffer is the size in bytes of the buffer of a file that stream prints.
	streamBuffer = 64 << 10
	// listLineMax is the largest length in bytes of a line of a list, with its end.
	listLineMax = 256
	// listFormat is the newest format of lists.
	listFormat = 1
)

// stream prints a file that is known by its beginning: a backup, a file of sorted entries,
// or the list of a file backup.
func (d *dumper) stream() error {
	f, err := d.o.FS.Open(d.o.Name, vfs.CatNone)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	size, err := f.Size()
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), streamBuffer)
	head, err := r.Peek(len(listHead))
	if err != nil && err != io.EOF {
		return err
	}
	switch {
	case bytes.HasPrefix(head, []byte(backup.TypeBackup)):
		return d.backup(r)
	case bytes.HasPrefix(head, []byte(backup.TypeSorted)):
		return d.sorted(r)
	case bytes.HasPrefix(head, []byte(listHead)):
		return d.list(r)
	}
	return fmt.Errorf("%w: %s", ErrUnknown, d.name)
}

// backup prints a backup.
func (d *dumper) backup(from io.Reader) error {
	r, err := backup.NewReader(from)
	if err != nil {
		return err
	}
	h, s := &r.Header, &r.Header.State
	_ = d.line("backup", "database", fmt.Sprintf("%x", s.ID), "since", h.Since, "version", s.LastSeq, "time", time.UnixMilli(int64(h.TimeMs)),
		"random", number(h.Nonce), "format", s.FormatVersion, "required features", features(s.RequiredFeatures), "optional features", features(s.OptionalFeatures))
	for _, k := range s.Keyspaces {
		d.keyspace(k)
	}
	var entries, unchanged uint64
	for {
		it, err := r.Next()
		switch {
		case err == nil && it.Unchanged:
			unchanged++
			err = d.line("unchanged", d.identity(&it.Entry)...)
		case err == nil:
			entries++
			err = d.item(&it, d.identity(&it.Entry), r.Chunk)
		case err == io.EOF:
			return d.line("end", "versions", entries, "unchanged", unchanged, "checksum", "ok")
		}
		if err != nil {
			return d.damage(err)
		}
	}
}

// sorted prints a file of sorted entries.
func (d *dumper) sorted(from io.Reader) error {
	r, err := backup.NewSortedReader(from)
	if err != nil {
		return err
	}
	_ = d.line("sorted entries")
	for entries := 0; ; entries++ {
		it, err := r.NextItem()
		if err == io.EOF {
			return d.line("end", "entries", entries, "checksum", "ok")
		}
		if err == nil {
			err = d.item(&it, []any{"key", it.Key}, r.Chunk)
		}
		if err != nil {
			return d.damage(err)
		}
	}
}

// item prints an entry of a file of items. identity has its version and key. chunk returns
// the parts of a large value, of which the dump keeps no more than it shows.
func (d *dumper) item(it *backup.Item, identity []any, chunk func() ([]byte, error)) error {
	if it.Large == 0 {
		d.described(&it.Entry, identity, true)
		return d.err
	}
	var shown []byte
	parts := 0
	for left := it.Large; left > 0; parts++ {
		part, err := chunk()
		if err != nil {
			return err
		}
		left -= uint64(len(part))
		shown = append(shown, part[:min(len(part), d.o.ValueMax-len(shown))]...)
	}
	return d.line("entry", append(d.attributes(&it.Entry, identity), "length", it.Large, "parts", parts, "value", shown)...)
}

// damage prints damage of a file whose rest cannot be read. It returns other errors.
func (d *dumper) damage(err error) error {
	var c *base.CorruptionError
	if !errors.As(err, &c) {
		return err
	}
	return d.line("damage", "offset", c.Offset, "error", err)
}

// features returns the names of features, nil if there are none.
func features(names []string) any {
	if len(names) == 0 {
		return nil
	}
	return names
}

// list prints the list of a file backup, line by line.
func (d *dumper) list(r *bufio.Reader) error {
	h := sha256.New()
	for at := 1; ; at++ {
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || len(line) > listLineMax:
			return d.line("damage", "number", at, "error", base.Corrupt(-1, "length of a line", len(line), fmt.Sprintf("at most %d", listLineMax)))
		case err == io.EOF:
			return d.line("damage", "number", at, "error", base.Corrupt(-1, "line", strconv.Quote(string(line)), "a checksum at the end"))
		case err != nil:
			return err
		}
		text := strings.TrimSuffix(string(line), "\n")
		if sum, last := strings.CutPrefix(text, "checksum "); last {
			_, after := r.Peek(1)
			return d.line("checksum", "sha256", sum, "checksum", verdict(sum == fmt.Sprintf("%x", h.Sum(nil)) && after == io.EOF))
		}
		h.Write(line)
		if err := d.listLine(at, text); err != nil {
			return err
		}
	}
}

// listLine prints a line of a list that is not the last one.
func (d *dumper) listLine(at int, text string) error {
	if format, first := strings.CutPrefix(text, listHead); first {
		if n, err := strconv.ParseUint(format, 10, 32); err == nil && n > listFormat {
			return fmt.Errorf("%w: format %d of file backups", base.ErrVersion, n)
		}
		return d.line("file backup", "format", format)
	}
	words := strings.Split(text, " ")
	switch {
	case words[0] == "id" && len(words) == 2:
		return d.line("id", "id", words[1])
	case words[0] == "file" && len(words) == 5:
		return d.line("file", "name", words[1], "size", words[2], "sha256", words[3], "mark", words[4])
	case words[0] == "end" && len(words) == 3:
		return d.line("end", "files", words[1], "bytes", words[2])
	}
	return d.line("damage", "number", at, "error", base.Corrupt(-1, "line", strconv.Quote(text), "id, file or end"))
}
