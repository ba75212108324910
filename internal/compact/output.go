package compact

import (
	"bytes"
	"errors"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
)

// An output collects the tables that a job makes, one after the other.
type output struct {
	job    *Job
	result Result
	// deletions are the range tombstones to keep, for all tables. from is where the
	// current table begins, nil for the first.
	deletions *rangedel.List
	from      []byte

	// behind finishes tables beside the next one. nil finishes them at once.
	behind *work.Behind
	file   NewFile
	writer *table.Writer // nil between two tables
	// jumps counts the pointers in the table whose value file differs from valuesIn,
	// that of the previous pointer. points says that there was a previous pointer.
	jumps    uint64
	valuesIn base.FileNum
	points   bool
	repeats  values.Repeats
	splits   int  // number of splits passed
	timed    bool // the next entry is of a keyspace with timestamps
	within   bool // and is not the first version of a user's key
	outdated Outdated
	spaces   keyspace.Walk
	space    uint32 // the keyspace of the next entry
	unread   int    // entries and value units since the last check of the size
}

// sizeEvery is the number of entries between two checks of a table's size. Each valueUnit
// bytes of a value count as one more entry.
const sizeEvery = 32

// withinMax is a factor: below level 0, only an output of withinMax*TableSize bytes may end
// between two versions of a user's key. If they are in two tables, a merge of one of them
// takes the other one along, see closeSeams.
const withinMax = 2

// beginKey ends the table before key if it has reached its end.
func (o *output) beginKey(key []byte) error {
	atSplit := false
	for o.passes(key) {
		if o.job.Around {
			if err := o.endAt(o.job.Splits[o.splits]); err != nil {
				return err
			}
		}
		o.splits++
		atSplit = true
	}
	crossed, err := o.enter(key)
	if o.writer == nil || err != nil {
		return err
	}
	if o.job.Cut != nil && o.job.Cut() {
		return o.finish(key)
	}
	if !atSplit && !crossed && o.unread < sizeEvery {
		return nil
	}
	o.unread = 0
	size := o.writer.EstimatedSize()
	if o.within && o.job.Level > 0 && size < withinMax*o.job.TableSize {
		o.unread = sizeEvery // look again before the next key
		return nil
	}
	if size >= o.job.TableSize || atSplit && size >= o.job.SplitMin ||
		crossed && size >= max(o.job.SplitMin, o.job.TableSize/borderPart) {
		return o.finish(key)
	}
	return nil
}

// passes reports whether the next split is at key or before it.
func (o *output) passes(key []byte) bool {
	return o.splits < len(o.job.Splits) && bytes.Compare(o.job.Splits[o.splits], key) <= 0
}

// borderPart is a divisor: an output ends between two keyspaces if it has at least
// TableSize/borderPart bytes. So dropping a large keyspace rewrites little, and many
// small keyspaces share a table.
const borderPart = 4

// enter notes the keyspace of the next key, and sets the codec for its values. It
// reports whether the keyspace differs from that of the last key.
func (o *output) enter(key []byte) (crossed bool, err error) {
	n := o.spaces.Number(key)
	if n == o.space {
		return false, nil
	}
	o.space = n
	if o.writer != nil && o.job.Codec != nil {
		err = o.writer.SetCompression(o.job.Codec(n))
	}
	return true, err
}

// put adds an entry. place, which may be nil, says where its value goes.
func (o *output) put(e *base.Entry, place Placer) error {
	if !e.Meta.Kind.HasValue() || place == nil {
		return o.add(e)
	}
	ref, inFile, err := place(e)
	if err != nil {
		return err
	}
	invariant.Check(inFile == (e.Meta.Kind == base.KindPointer),
		"entry of kind %s placed in a value file: %t", e.Meta.Kind, inFile)
	if inFile {
		return o.addPointer(e, ref)
	}
	return o.add(e)
}

func (o *output) add(e *base.Entry) error {
	if err := o.prepare(e); err != nil {
		return err
	}
	return o.writer.Add(*e)
}

func (o *output) addPointer(e *base.Entry, ref manifest.ValueRef) error {
	if err := o.prepare(e); err != nil {
		return err
	}
	if o.points && ref.File != o.valuesIn {
		o.jumps++
	}
	o.valuesIn, o.points = ref.File, true
	if o.repeats.Next(e.Value) {
		ref.Bytes = 0
	}
	return o.writer.AddPointer(*e, table.ValueFileRef{File: uint64(ref.File), Bytes: ref.Bytes})
}

// prepare makes sure that there is a table for e, and counts e.
func (o *output) prepare(e *base.Entry) error {
	o.unread += 1 + len(e.Value)/valueUnit
	if o.writer == nil {
		if err := o.create(); err != nil {
			return err
		}
	}
	o.outdated.Note(e, o.timed)
	return nil
}

// create begins a table.
func (o *output) create() error {
	var err error
	if o.file, err = o.job.NewFile(); err != nil {
		return err
	}
	o.result.Files = append(o.result.Files, o.file.Num)
	o.jumps, o.points, o.repeats = 0, false, values.Repeats{}
	o.outdated.Begin()
	opts := o.job.Writer
	opts.Salt, opts.SparseIndex = o.file.Salt, o.job.Level == 0
	if o.job.Codec != nil {
		opts.Compression = o.job.Codec(o.space)
	}
	if o.writer, err = table.NewWriter(o.file.File, opts); err != nil {
		return errors.Join(err, o.file.File.Close())
	}
	return nil
}

// end finishes the last tables.
func (o *output) end() error {
	for ; o.job.Around && o.splits < len(o.job.Splits); o.splits++ {
		if err := o.endAt(o.job.Splits[o.splits]); err != nil {
			return err
		}
	}
	return o.endAt(o.job.To)
}

// endAt ends the current table before next; nil means the end of all keys. If there is no
// table but range tombstones before next, it makes a table of them.
func (o *output) endAt(next []byte) error {
	if o.writer == nil && o.deletions.Clip(o.from, next).Len() > 0 {
		if err := o.create(); err != nil {
			return err
		}
	}
	return o.finish(next)
}

// finish ends the current table, if there is one. The table gets the range tombstones up to
// next, where the next table begins; nil means the end of all keys.
func (o *output) finish(next []byte) error {
	if o.writer == nil {
		return nil
	}
	if err := o.writer.AddDeletions(o.deletions.Clip(o.from, next)); err != nil {
		return err
	}
	if err := o.behind.Wait(); err != nil {
		return err // abandon closes the file
	}
	w := o.writer
	o.writer, o.from = nil, bytes.Clone(next)
	file, jumps, outdated := o.file, o.jumps, o.outdated.clone() // the next table reuses the memory
	return o.behind.Run(func() error {
		t, err := o.complete(w, file)
		if err == nil {
			t.Jumps = jumps
			outdated.Describe(t)
			o.result.Tables = append(o.result.Tables, t)
		}
		return err
	})
}

// complete finishes a table. With behind, it runs beside the next output.
func (o *output) complete(w *table.Writer, file NewFile) (*manifest.Table, error) {
	props, err := w.Finish()
	if err = errors.Join(err, file.File.Close()); err != nil {
		return nil, err
	}
	if o.job.Filter != nil {
		o.job.Filter.Add(w.Hashes())
	}
	o.result.BytesWritten += props.Size
	t := o.describe(&props)
	t.Num = file.Num
	return t, nil
}

// describe returns the metadata of a table of the job for the manifest, as far as its
// properties and the job tell.
func (o *output) describe(p *table.Properties) *manifest.Table {
	t := TableOf(p)
	t.Level, t.Run, t.CreatedMs = o.job.Level, o.job.Run, o.job.CreatedMs
	if o.job.Filter != nil {
		t.Filter = o.job.Filter.Filter()
	}
	return t
}

// TableOf returns what the manifest says of a table, as far as its properties tell.
func TableOf(p *table.Properties) *manifest.Table {
	t := &manifest.Table{
		Size: p.Size, Salt: p.Salt,
		// The bounds of range tombstones are in the memory of the inputs.
		Smallest: bytes.Clone(p.Smallest), Largest: base.CloneBound(p.Largest), LargestExclusive: p.LargestExclusive,
		SmallestSeq: p.SmallestSeq, LargestSeq: p.LargestSeq,
		Keys: p.Keys, Entries: p.Entries, Deletions: p.Deletions, RangeDeletions: p.RangeDeletions,
		Expiring: p.Expiring, Pointers: p.Pointers, Partials: p.Partials,
		OldestExpiry: p.OldestExpiry, NewestExpiry: p.NewestExpiry,
		KeyBytes: p.KeyBytes, ValueBytes: p.ValueBytes,
	}
	refs := make([]manifest.ValueRef, len(p.ValueFiles))
	for i, ref := range p.ValueFiles {
		refs[i] = manifest.ValueRef{File: base.FileNum(ref.File), Bytes: ref.Bytes}
	}
	t.Values = manifest.ValueRefsOf(refs...)
	return t
}

// abandon closes the file of a table that will not be finished.
func (o *output) abandon() {
	if o.writer != nil {
		// The job has failed already; the file will be removed.
		_ = o.file.File.Close()
		o.writer = nil
	}
}
