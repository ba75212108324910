package dump

import (
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

// hint returns what the manifest beside a table says of it, or nil.
func (d *dumper) hint(num base.FileNum) *table.Hint {
	for t := range d.version().Tables() {
		if t.Num == num {
			return &table.Hint{Salt: t.Salt}
		}
	}
	return nil
}

// table prints a table.
func (d *dumper) table(num base.FileNum) error {
	f, size, err := d.open(vfs.CatTable)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	t, err := table.OpenDamaged(f, size, d.name, d.hint(num))
	if err != nil {
		return err
	}
	_ = d.line("table", "size", size, "salt", number(t.Salt()), "blocks", t.Blocks())
	for _, s := range t.Sections() {
		_ = d.line("section", "name", s.Name, "offset", s.Offset, "length", s.Length, "checksum", verdict(s.Sound))
	}
	for _, note := range t.Notes {
		_ = d.line("note", "error", note)
	}
	if p := t.Properties(); p != nil {
		_ = d.line("properties", "smallest", p.Smallest, "largest", p.Largest, "smallest version", p.SmallestSeq, "largest version", p.LargestSeq,
			"entries", p.Entries, "keys", p.Keys, "tombstones", p.Deletions, "expiring", p.Expiring, "pointers", p.Pointers, "partials", p.Partials)
		for _, ref := range p.ValueFiles {
			_ = d.line("reference", "value file", ref.File, "bytes", ref.Bytes)
		}
	}
	d.tombstones(t.Deletions())
	for b := range t.Blocks() {
		if err := d.block(b, t.Block(b)); err != nil {
			return err
		}
	}
	return nil
}

// tombstones prints range tombstones.
func (d *dumper) tombstones(l *rangedel.List) {
	for i := range l.Len() {
		f := l.At(i)
		_ = d.line("range tombstone", "from", f.Lo, "to", bound(f.Hi), "versions", f.Seqs)
	}
}

// bound returns the end of a range, nil if it has none.
func bound(hi []byte) any {
	if b := base.StoredBound(hi); b != nil {
		return b
	}
	return nil
}

// block prints a block of a table with its entries.
func (d *dumper) block(b int, info table.BlockInfo) error {
	_ = d.line("block", "number", b, "entries", info.Count, "codec", info.Codec,
		"key offset", info.KeyOffset, "key length", info.KeyLength, "keys", verdict(info.Err == nil),
		"value offset", info.ValOffset, "value length", info.ValLength, "values", verdict(info.Err == nil && info.ValuesErr == nil),
		"error", failure(info.Err), "values error", failure(info.ValuesErr))
	for i := range info.Entries {
		d.entry(&info.Entries[i], info.ValuesErr == nil)
	}
	return d.err
}

// entry prints an entry. known says that its value is there.
func (d *dumper) entry(e *base.Entry, known bool) { d.described(e, d.identity(e), known) }

// identity describes the version and the key of an entry.
func (d *dumper) identity(e *base.Entry) []any {
	space, key, err := keyspace.Decode(e.Key)
	if err != nil {
		return []any{"version", e.Seq, "stored key", e.Key}
	}
	return []any{"version", e.Seq, "keyspace", space, "key", key}
}

// attributes describes an entry without its value.
func (d *dumper) attributes(e *base.Entry, identity []any) []any {
	pairs := append([]any{"kind", e.Meta.Kind.String()}, identity...)
	if x := e.Meta.ExpiresAt; x != 0 {
		pairs = append(pairs, "expires", x)
	}
	if e.Meta.User != 0 {
		pairs = append(pairs, "user", e.Meta.User)
	}
	return pairs
}

// described prints an entry with the given identity.
func (d *dumper) described(e *base.Entry, identity []any, known bool) {
	pairs := d.attributes(e, identity)
	switch {
	case !known:
	case e.Meta.Kind == base.KindPointer:
		pairs = append(pairs, pointer(e.Value)...)
	case e.Meta.Kind.HasValue():
		pairs = append(pairs, "length", len(e.Value), "value", d.shown(e.Value))
	case e.Meta.Kind == base.KindDeleteRange:
		pairs = append(pairs, "to", bound(base.LoadedBound(e.Value)))
	}
	_ = d.line("entry", pairs...)
	if known && e.Meta.Kind.Partial() {
		d.steps(e)
	}
}

// pointer describes a pointer to a value.
func pointer(value []byte) []any {
	p, err := values.DecodePointer(value)
	if err != nil {
		return []any{"error", err}
	}
	pairs := []any{"value file", p.File, "offset", p.Offset, "record", p.Length(), "length", p.ValueLen}
	if p.Version != 0 {
		pairs = append(pairs, "record version", p.Version)
	}
	return pairs
}

// steps prints the steps of a partial entry.
func (d *dumper) steps(e *base.Entry) {
	steps, err := partial.Decode(nil, e.Meta.Kind, e.Value)
	for _, s := range steps {
		at := time.UnixMilli(int64(s.TimeMs))
		if s.Operand != nil {
			_ = d.line("operand", "time", at, "length", len(s.Operand), "operand", d.shown(s.Operand))
		} else {
			_ = d.line("renewal", "time", at, "expires", s.Expires)
		}
	}
	if err != nil {
		_ = d.line("error", "error", err)
	}
}
