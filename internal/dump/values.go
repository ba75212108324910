package dump

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

// valuesHint returns what the manifest beside a value file says of it, or nil.
func (d *dumper) valuesHint() *values.Hint {
	for _, v := range d.version().Values {
		if base.ValueName(v.File) == d.name {
			return &values.Hint{Num: v.Num, Salt: v.Salt}
		}
	}
	return nil
}

// values prints a value file.
func (d *dumper) values() error {
	f, size, err := d.open(vfs.CatValue)
	if err != nil {
		return err
	}
	v, err := values.OpenDamaged(f, size, d.name, d.valuesHint())
	if err != nil {
		_ = f.Close() // it was only read
		return err
	}
	defer func() { _ = v.Close() }() // it was only read
	_ = d.line("value file", "size", size, "identity", v.Num(), "salt", number(v.Salt()), "remapped", v.Remapped(), "sections", verdict(len(v.Notes) == 0))
	for _, note := range v.Notes {
		_ = d.line("note", "error", note)
	}
	return v.Records(func(r values.RecordInfo) error {
		if r.Err != nil {
			return d.line("damage", "offset", r.Offset, "length", r.Length, "error", r.Err)
		}
		pairs := []any{"offset", r.Offset, "size", r.Length, "version", r.Seq, "stored key", r.Key, "length", r.ValueLen, "codec", r.Codec, "checksum", "ok"}
		if r.Chunks > 0 {
			pairs = append(pairs, "parts", r.Chunks)
		}
		return d.line("record", pairs...)
	})
}
