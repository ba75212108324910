package backup

import (
	"errors"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// valueFileSize is the size in bytes to which value files grow.
	valueFileSize = 128 << 20
	// sizeEvery is the number of keys between two checks of the size of a table.
	sizeEvery = 32
)

// A builder writes versions, in order, to tables of the last level and to value files.
type builder struct {
	fs        vfs.FS
	dir       string
	next      uint64 // the number of the next file
	random    func() uint64
	hashSeed  uint64
	createdMs uint64
	tableSize int64
	rules     settings.Walk

	table     *table.Writer // nil between two tables
	tableFile vfs.File
	of        manifest.Table // number, salt and jumps of the table
	keys      int            // of the table, since the last look at its size
	lastFile  base.FileNum   // the value file of the last pointer; 0 is none
	outdated  compact.Outdated
	timed     bool // the keyspace of the key has timestamps

	values     *values.Writer // nil between two value files
	valuesFile vfs.File
	valuesNum  base.FileNum
	pointer    []byte

	size   int64 // bytes of keys and values since the last piece
	tables []*manifest.Table
	made   []*manifest.ValueFile
}

// add writes a version. from has the rest of a large value. newKey says that the version
// before was of another key.
func (b *builder) add(it Item, from *Reader, newKey bool) error {
	if newKey {
		if err := b.beginKey(); err != nil {
			return err
		}
	}
	if err := b.openTable(it.Key); err != nil {
		return err
	}
	b.size += int64(len(it.Key)) + int64(len(it.Value)) + int64(it.Large)
	e := it.Entry
	b.outdated.Note(&e, b.timed)
	if e.Meta.Kind != base.KindSet || it.Large == 0 && int64(len(e.Value)) < b.rules.At(e.Key).ValueThreshold {
		return b.table.Add(e)
	}
	at, err := b.place(&it, from)
	if err != nil {
		return err
	}
	b.pointer = at.AppendTo(b.pointer[:0])
	e.Value, e.Meta.Kind = b.pointer, base.KindPointer
	if b.lastFile != 0 && b.lastFile != at.File {
		b.of.Jumps++
	}
	b.lastFile = at.File
	return b.table.AddPointer(e, table.ValueFileRef{File: uint64(at.File), Bytes: values.RefBytes(at)})
}

// place writes the value of an item to a value file.
func (b *builder) place(it *Item, from *Reader) (at values.Pointer, err error) {
	if err := b.openValues(int64(len(it.Value)) + int64(it.Large)); err != nil {
		return at, err
	}
	if it.Large == 0 {
		if err := b.values.SetCompression(b.rules.At(it.Key).Compression.OfValues()); err != nil {
			return at, err
		}
		return b.values.Append(it.Key, it.Seq, it.Value)
	}
	s, err := b.values.Stream(it.Key)
	if err != nil {
		return at, err
	}
	for {
		part, err := from.Chunk()
		if err == nil && len(part) == 0 {
			return s.Finish(it.Seq)
		}
		if err == nil {
			_, err = s.Write(part)
		}
		if err != nil {
			s.Abort()
			return at, err
		}
	}
}

// create creates the next numbered file.
func (b *builder) create(name func(base.FileNum) string, cat vfs.Category) (base.FileNum, vfs.File, error) {
	n := base.FileNum(b.next)
	b.next++
	f, err := b.fs.Create(b.fs.Join(b.dir, name(n)), cat)
	return n, f, err
}

// beginKey ends the table if it is large enough.
func (b *builder) beginKey() error {
	if b.keys++; b.table == nil || b.keys < sizeEvery {
		return nil
	}
	if b.keys = 0; b.table.EstimatedSize() < b.tableSize {
		return nil
	}
	return b.endTable()
}

// openTable makes sure that there is a table, and sets its compression for a key.
func (b *builder) openTable(key []byte) (err error) {
	compression := b.rules.At(key).Compression.OfTables(manifest.Levels - 1)
	if b.table != nil {
		return b.table.SetCompression(compression)
	}
	b.of, b.lastFile, b.keys = manifest.Table{Salt: b.random()}, 0, 0
	b.outdated.Begin()
	if b.of.Num, b.tableFile, err = b.create(base.TableName, vfs.CatTable); err != nil {
		return err
	}
	b.table, err = table.NewWriter(b.tableFile, table.WriterOptions{Salt: b.of.Salt, HashSeed: b.hashSeed, Compression: compression})
	return err
}

// endTable completes the table, durably but for its name.
func (b *builder) endTable() error {
	if b.table == nil {
		return nil
	}
	p, err := b.table.Finish()
	if err = errors.Join(err, b.tableFile.Close()); err != nil {
		return err
	}
	b.table, b.tableFile = nil, nil
	t := compact.TableOf(&p)
	t.Num, t.Level, t.CreatedMs, t.Jumps = b.of.Num, manifest.Levels-1, b.createdMs, b.of.Jumps
	b.outdated.Describe(t)
	b.tables = append(b.tables, t)
	return nil
}

// openValues makes sure that there is a value file with room for another value.
func (b *builder) openValues(more int64) (err error) {
	if b.values != nil && !b.values.Empty() && b.values.Size()+more > valueFileSize {
		if err := b.endValues(); err != nil {
			return err
		}
	}
	if b.values != nil {
		return nil
	}
	if b.valuesNum, b.valuesFile, err = b.create(base.ValueName, vfs.CatValue); err != nil {
		return err
	}
	b.values, err = values.NewWriter(b.valuesFile, values.WriterOptions{Num: b.valuesNum, Salt: b.random()})
	return err
}

// endValues completes the value file, durably but for its name.
func (b *builder) endValues() error {
	if b.values == nil {
		return nil
	}
	p, err := b.values.Finish()
	if err = errors.Join(err, b.valuesFile.Close()); err != nil {
		return err
	}
	b.values, b.valuesFile = nil, nil
	b.made = append(b.made, place.FileOf(p, b.valuesNum))
	return nil
}

// piece completes all files and makes their names durable. It returns the edit that adds
// them.
func (b *builder) piece() (manifest.Edit, error) {
	if err := errors.Join(b.endTable(), b.endValues()); err != nil {
		return manifest.Edit{}, err
	}
	e := manifest.Edit{AddTables: b.tables, AddValues: b.made, NextFile: manifest.Some(b.next)}
	b.tables, b.made, b.size = nil, nil, 0
	if mutant.On(mutant.RestoreUnfinished) {
		return e, nil
	}
	return e, b.fs.SyncDir(b.dir)
}

// close closes the files that were not completed.
func (b *builder) close() {
	for _, f := range []vfs.File{b.tableFile, b.valuesFile} {
		if f != nil {
			_ = f.Close() // the next restore removes it
		}
	}
}
