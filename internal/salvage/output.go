package salvage

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/vfs"
)

// tableSize is the size in bytes at which new tables end.
const tableSize = 32 << 20

// level is the level of all new tables: the last.
const level = manifest.Levels - 1

// A target is the new database while it is made.
type target struct {
	fs   vfs.FS // seals tables and value files of an encrypted database
	dir  string
	seal record.Sealer
	next base.FileNum
}

// create makes a file with the next number.
func (t *target) create(name func(base.FileNum) string, cat vfs.Category) (base.FileNum, vfs.File, error) {
	t.next++
	f, err := t.fs.Create(t.fs.Join(t.dir, name(t.next)), cat)
	return t.next, f, err
}

// remove removes a file.
func (t *target) remove(name string) error { return t.fs.Remove(t.fs.Join(t.dir, name)) }

// An output writes entries to new tables.
type output struct {
	s *salvager
	// raw says that the tables are inputs of a later merge.
	raw bool
	// deletions are the range tombstones of all tables. from is where the current table
	// begins, nil for the first.
	deletions *rangedel.List
	from      []byte

	num    base.FileNum
	file   vfs.File
	w      *table.Writer // nil between two tables
	jumps  uint64
	points base.FileNum // the value file of the last pointer, 0 if there is none
	key    []byte
	keys   int // since the last check of the size
	walk   keyspace.Walk
	// outdated is not used by a raw output.
	outdated compact.Outdated

	tables []*manifest.Table
	inputs []tableInput // of a raw output
}

func (s *salvager) newOutput(raw bool) *output {
	o := &output{s: s, raw: raw}
	if !raw {
		o.deletions = s.deletions
	}
	return o
}

// add adds an entry whose value is not a pointer, or stays where it is.
func (o *output) add(e base.Entry) error {
	if err := o.prepare(&e); err != nil {
		return err
	}
	return o.w.Add(e)
}

// addPointer adds an entry whose value is in a new value file.
func (o *output) addPointer(e base.Entry, ref manifest.ValueRef) error {
	if err := o.prepare(&e); err != nil {
		return err
	}
	if o.points != 0 && o.points != ref.File {
		o.jumps++
	}
	o.points = ref.File
	return o.w.AddPointer(e, table.ValueFileRef{File: uint64(ref.File), Bytes: ref.Bytes})
}

// sizeEvery is the number of keys between two checks of the size of a table.
const sizeEvery = 32

// prepare makes sure that there is a table for e. A table ends only between two keys.
func (o *output) prepare(e *base.Entry) error {
	if o.w != nil && !bytes.Equal(o.key, e.Key) {
		if o.keys++; o.keys >= sizeEvery || len(e.Value) > tableSize/64 {
			o.keys = 0
			if o.w.EstimatedSize() >= tableSize {
				if err := o.finish(e.Key); err != nil {
					return err
				}
			}
		}
	}
	o.key = append(o.key[:0], e.Key...)
	if o.w == nil {
		if err := o.create(); err != nil {
			return err
		}
	}
	if o.raw {
		return nil
	}
	number := o.walk.Number(e.Key)
	o.outdated.Note(e, o.s.spaces.timed(number))
	return o.w.SetCompression(o.s.rules(number).Compression.OfTables(level))
}

// create begins a table.
func (o *output) create() (err error) {
	if err := o.s.o.Stop(); err != nil {
		return err
	}
	if o.num, o.file, err = o.s.to.create(base.TableName, vfs.CatTable); err != nil {
		return err
	}
	o.jumps, o.points, o.keys = 0, 0, 0
	o.outdated.Begin()
	o.w, err = table.NewWriter(o.file, table.WriterOptions{Salt: o.s.o.Random(), HashSeed: o.s.hashSeed})
	return err
}

// finish ends the current table. It gets the range tombstones up to next, nil for all.
func (o *output) finish(next []byte) error {
	deletions := o.deletions.Clip(o.from, next)
	if o.w == nil {
		if deletions.Len() == 0 {
			return nil
		}
		if err := o.create(); err != nil {
			return err
		}
	}
	w, file := o.w, o.file
	o.w, o.file = nil, nil
	o.s.report.RangeTombstones += uint64(deletions.Numbers())
	err := w.AddDeletions(deletions)
	var p table.Properties
	if err == nil {
		p, err = w.Finish()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", base.TableName(o.num), err)
	}
	o.from = bytes.Clone(next)
	if o.raw {
		o.inputs = append(o.inputs, tableInput{num: o.num, lo: p.Smallest, hi: p.Largest, made: true})
		return nil
	}
	o.tables = append(o.tables, o.describe(&p))
	return nil
}

// describe returns what the manifest says of a table.
func (o *output) describe(p *table.Properties) *manifest.Table {
	t := compact.TableOf(p)
	t.Num, t.Level, t.CreatedMs, t.Jumps = o.num, level, o.s.nowMs, o.jumps
	o.outdated.Describe(t)
	return t
}

// reread ends a raw output, and returns a source of what it wrote. err is the error so
// far.
func (o *output) reread(log bool, err error) (source, error) {
	if err == nil {
		err = o.finish(nil)
	}
	if err != nil {
		o.close()
		return nil, err
	}
	for i := range o.inputs {
		o.inputs[i].log = log
		o.s.spare = append(o.s.spare, o.inputs[i].name())
	}
	return &chain{s: o.s, tables: o.inputs}, nil
}

// close closes the file of an output that is given up.
func (o *output) close() {
	if o.file != nil {
		_ = o.file.Close()
		o.file, o.w = nil, nil
	}
}
