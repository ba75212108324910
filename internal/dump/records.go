package dump

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/payload"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// records prints a file of records: a segment of the log, or a manifest.
func (d *dumper) records(t record.Type, show func(body []byte) error) error {
	cat := vfs.CatLog
	if t == record.TypeManifest {
		cat = vfs.CatManifest
	}
	f, size, err := d.open(cat)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	headers, err := record.ReadHeaders(f, size, t)
	if err != nil {
		return err
	}
	if len(headers) == 0 {
		return base.Corrupt(0, "header", "none", "one")
	}
	for i := range headers {
		h := &headers[i]
		_ = d.line("header", "type", string(h.Type[:]), "number", h.Number, "file", h.File, "salt", number(h.Salt), "size", h.Size, "sealed", h.Key.Sealed(), "checksum", "ok")
		if h.Size != size {
			_ = d.line("error", "error", base.Corrupt(-1, "size of the file", size, h.Size))
		}
		aead, err := h.Open(d.sealer())
		if err != nil && h.Key.Sealed() && d.keys == nil {
			return errNoKey
		}
		if err != nil {
			return err
		}
		if err := d.frames(record.NewReader(f, min(size, h.Size), h.Salt, aead), show); err != nil {
			return err
		}
	}
	return nil
}

// frames prints the records of one use of a file.
func (d *dumper) frames(r *record.Reader, show func(body []byte) error) error {
	for {
		at := r.Offset()
		rec, err := r.NextRecord()
		if err == io.EOF {
			return d.line("end", "offset", r.Offset())
		}
		if errors.Is(err, base.ErrCorrupt) {
			_ = d.line("damage", "offset", at, "error", err)
			if ok, err := r.Skip(); err != nil || !ok {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		_ = d.line("record", "kind", rec.Kind.String(), "offset", rec.Offset, "end", rec.End, "early", rec.Early, "durable", rec.Durable, "checksum", "ok")
		switch rec.Kind {
		case record.Whole:
			err = show(rec.Payload)
		case record.Next:
			if ref, ok := log.Successor(rec.Payload); ok {
				err = d.line("successor", "number", ref.Number, "file", ref.File, "salt", number(ref.Salt))
			}
		}
		if err != nil {
			return err
		}
	}
}

// transaction prints a record of the log.
func (d *dumper) transaction(body []byte) error {
	var seq base.SeqNum
	err := payload.Decode(body, func(h payload.Header) error {
		seq = h.Seq
		return d.line("transaction", "version", h.Seq, "time", time.UnixMilli(int64(h.TimeMs)), "entries", h.Count)
	}, func(key, value []byte, m base.Meta) error {
		d.entry(&base.Entry{Key: key, Value: value, Seq: seq, Meta: m}, true)
		return d.err
	})
	if err != nil && d.err == nil {
		return d.line("error", "error", err)
	}
	return d.err
}

// edit prints a record of a manifest.
func (d *dumper) edit(body []byte) error {
	e, err := manifest.DecodeEdit(body)
	if err != nil {
		return d.line("error", "error", err)
	}
	pairs := []any{}
	add := func(name string, set bool, value any) {
		if set {
			pairs = append(pairs, name, value)
		}
	}
	add("format", e.FormatVersion.Set, e.FormatVersion.Value)
	add("id", e.ID.Set, fmt.Sprintf("%x", e.ID.Value))
	add("hash seed", e.HashSeed.Set, number(e.HashSeed.Value))
	add("last version", e.LastSeq.Set, e.LastSeq.Value)
	add("clock", e.ClockHighMs.Set, e.ClockHighMs.Value)
	add("next file", e.NextFile.Set, e.NextFile.Value)
	add("flushed version", e.FlushedSeq.Set, e.FlushedSeq.Value)
	add("next keyspace", e.NextKeyspace.Set, e.NextKeyspace.Value)
	add("required features", len(e.RequiredFeatures) > 0, e.RequiredFeatures)
	add("optional features", len(e.OptionalFeatures) > 0, e.OptionalFeatures)
	_ = d.line("edit", pairs...)
	for _, s := range e.Spans.Value {
		_ = d.line("span", "number", s.First.Number, "file", s.First.File, "salt", number(s.First.Salt), "sealed", s.Sealed, "end number", s.EndNumber, "end", s.End)
	}
	for _, p := range e.DropTables {
		_ = d.line("drop table", "level", p.Level, "number", p.Num)
	}
	for _, t := range e.AddTables {
		d.addedTable(t)
	}
	for _, n := range e.DropValues {
		_ = d.line("drop value file", "number", n)
	}
	for _, v := range e.AddValues {
		_ = d.line("add value file", "number", v.Num, "file", v.File, "size", v.Size, "salt", number(v.Salt), "values", v.Values,
			"bytes", v.Bytes, "smallest version", v.FirstSeq, "largest version", v.LastSeq)
	}
	for _, n := range e.ForgetKeyspaces {
		_ = d.line("forget keyspace", "number", n)
	}
	for _, k := range e.PutKeyspaces {
		d.keyspace(k)
	}
	for _, f := range e.Unknown {
		_ = d.line("unknown field", "tag", f.Tag, "length", len(f.Value))
	}
	return d.err
}

// keyspace prints a keyspace.
func (d *dumper) keyspace(k *manifest.Keyspace) {
	_ = d.line("keyspace", "number", k.Number, "name", k.Name, "dropped", k.Dropping, "settings", fmt.Sprintf("%+v", k.Settings))
}

// addedTable prints a table of an edit.
func (d *dumper) addedTable(t *manifest.Table) {
	_ = d.line("add table", "level", t.Level, "run", t.Run, "number", t.Num, "size", t.Size, "salt", number(t.Salt),
		"smallest", t.Smallest, "largest", bound(t.Largest), "smallest version", t.SmallestSeq, "largest version", t.LargestSeq,
		"entries", t.Entries, "tombstones", t.Deletions, "range tombstones", t.RangeDeletions, "pointers", t.Pointers, "partials", t.Partials)
	for ref := range t.Values.All() {
		_ = d.line("reference", "value file", ref.File, "bytes", ref.Bytes)
	}
}
