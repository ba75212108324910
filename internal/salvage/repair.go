package salvage

import (
	"context"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/newdir"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

// A Repair says what became of a damaged table.
type Repair struct {
	// File is the name of the table, and Parts are its damaged parts.
	File  string
	Parts []string
	// New is the name of the table that replaces it, empty if it could not be repaired.
	New string
	// Err says why it could not be repaired.
	Err error
}

// A repairer is a run of RepairTables.
type repairer struct {
	salvager
	// exact is fs without corrections: it reads what the database reads.
	exact vfs.FS
	store *manifest.Store
	next  base.FileNum // the number of the next new table
}

// RepairTables rebuilds what can be derived of the tables in the directory Options.From.
// That is the hash index, the fences, the checksums of blocks, the properties and the
// footer. It also corrects one wrong bit of the directory or of the seal. It writes the
// entries of a damaged table to a new one, which one edit of the manifest puts in its
// place. A crash leaves the old table or the new one. Tables that have lost entries stay as
// they are.
//
// It needs a whole manifest, whole data keys, and the database for itself.
func RepairTables(ctx context.Context, o Options) (done []Repair, err error) {
	r := &repairer{salvager: salvager{o: &o, fs: o.FS}}
	if _, err := o.FS.Stat(o.From); err != nil {
		return nil, err
	}
	lock, err := newdir.LockDatabase(o.FS, o.From)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }() // nothing is written through it
	if err := r.openExact(ctx); err != nil {
		return nil, err
	}
	if r.store, r.state, err = manifest.Load(r.fs, o.From, false, o.Random, r.sealer); err != nil {
		return nil, err
	}
	done, err = r.repairAll()
	return done, errors.Join(err, r.store.Close())
}

// openExact loads the data keys twice: to correct what they sealed, and to read it exactly.
// The second time makes them durable, because new tables need them.
func (r *repairer) openExact(ctx context.Context) error {
	plain := r.fs
	if err := r.openKeys(ctx); err != nil {
		return err
	}
	if r.exact = plain; r.sealer == nil {
		return nil
	}
	keys, err := seal.Load(ctx, r.keyOptions(plain, r.o.From, false))
	if err == nil {
		r.exact = keys.FS(plain)
	}
	return err
}

// repairAll repairs all tables.
func (r *repairer) repairAll() (done []Repair, err error) {
	inv, err := r.list()
	if err != nil {
		return nil, err
	}
	r.next = base.FileNum(r.state.NextFile)
	for _, n := range append(inv.tables, inv.values...) {
		if n < base.ForeignFile {
			r.next = max(r.next, n+1)
		}
	}
	r.spaces = newSpaces(&r.state, true)
	for t := range r.state.Version.Tables() {
		if err := r.o.Stop(); err != nil {
			return done, err
		}
		damage, err := r.verify(t.Num, t.Size)
		if err != nil {
			return done, err
		}
		if damage == nil {
			continue
		}
		result := Repair{File: base.TableName(t.Num)}
		if err := r.repair(t, damage, &result); err != nil {
			return done, err
		}
		done = append(done, result)
	}
	return done, nil
}

// verify reads a whole table and returns what is wrong with it. Other tables may be whole if
// the device cannot read this one.
func (r *repairer) verify(num base.FileNum, size int64) (damage, err error) {
	err = r.read(num, size)
	if errors.Is(err, vfs.ErrNotExist) || errors.Is(err, base.ErrCorrupt) || errors.Is(err, vfs.ErrIO) {
		return err, nil
	}
	return nil, err
}

// read reads a whole table.
func (r *repairer) read(num base.FileNum, size int64) error {
	name := base.TableName(num)
	f, err := r.exact.Open(r.fs.Join(r.o.From, name), vfs.CatTable)
	if err != nil {
		return err
	}
	got, err := f.Size()
	if err == nil && got != size {
		err = base.InFile(base.Corrupt(-1, "size of the file", got, size), name)
	}
	if err != nil {
		_ = f.Close() // it was only read
		return err
	}
	return fault.Guard(func() error {
		t, err := table.Open(f, size, name, table.ReaderOptions{})
		if err == nil {
			err = errors.Join(fault.Guard(t.Verify), t.Close())
		}
		return err
	})
}

// repair replaces a damaged table, if nothing of it is lost. The error is that of a write.
func (r *repairer) repair(t *manifest.Table, damage error, result *Repair) error {
	in := tableInput{num: t.Num, hint: hint(t)}
	file, d, err := r.openTable(&in)
	if err != nil {
		result.Err = fmt.Errorf("%w; the table cannot be read", damage)
		return nil
	}
	defer func() { _ = file.Close() }() // it was only read
	sections := d.Sections()
	if sections == nil {
		result.Parts = []string{"footer"}
	}
	for _, s := range sections {
		if !s.Sound {
			result.Parts = append(result.Parts, s.Name)
		}
	}
	if len(d.Problems) > 0 {
		result.Err = fmt.Errorf("%w; its range tombstones are lost", damage)
		return nil
	}
	if f, err := r.exact.Open(r.fs.Join(r.o.From, in.name()), vfs.CatTable); errors.Is(err, base.ErrCorrupt) {
		result.Parts = append(result.Parts, "seal")
	} else if err == nil {
		_ = f.Close() // it was only opened
	}
	if len(result.Parts) == 0 {
		result.Parts = []string{"contents"} // they verify, and do not fit together
	}
	fresh, err := r.rewrite(t, d)
	if errors.Is(err, errNotAll) {
		result.Err = fmt.Errorf("%w; entries are lost, which salvage lists", damage)
		return nil
	}
	if err != nil {
		return err
	}
	edit := manifest.Edit{DropTables: []manifest.Place{{Level: t.Level, Num: t.Num}}, AddTables: []*manifest.Table{fresh},
		NextFile: manifest.Some(uint64(r.next))}
	if err := r.store.Append(edit); err != nil {
		return err
	}
	result.New = base.TableName(fresh.Num)
	// If the old table stays, the next Open deletes it.
	_ = r.fs.Remove(r.fs.Join(r.o.From, in.name()))
	return nil
}

// errNotAll says that a table has lost entries.
var errNotAll = errors.New("entries are lost")

// rewrite writes the entries of d to a new table, durably, and returns its metadata.
func (r *repairer) rewrite(t *manifest.Table, d *table.Damaged) (fresh *manifest.Table, err error) {
	num := r.next
	r.next++
	path := r.fs.Join(r.o.From, base.TableName(num))
	file, err := r.fs.Create(path, vfs.CatTable)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			// The next Open deletes what this cannot.
			_ = r.fs.Remove(path)
		}
	}()
	p, err := r.copyTable(t, d, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	same := p.Entries == t.Entries && p.Deletions == t.Deletions && p.Pointers == t.Pointers && p.Partials == t.Partials &&
		p.Expiring == t.Expiring && p.KeyBytes == t.KeyBytes && p.ValueBytes == t.ValueBytes &&
		p.SmallestSeq == t.SmallestSeq && p.LargestSeq == t.LargestSeq && p.RangeDeletions == t.RangeDeletions
	if !same && !mutant.On(mutant.RepairUncounted) {
		return nil, errNotAll
	}
	if err := r.fs.SyncDir(r.o.From); err != nil {
		return nil, err
	}
	damage, err := r.verify(num, p.Size)
	if err = errors.Join(damage, err); err != nil {
		return nil, err
	}
	changed := *t
	changed.Num, changed.Size, changed.Salt, changed.SeqShift, changed.Filter = num, p.Size, p.Salt, 0, nil
	if mutant.On(mutant.RepairShiftsTwice) {
		changed.SeqShift = t.SeqShift
	}
	return &changed, nil
}

// copyTable copies the entries and the range tombstones of d to a file.
func (r *repairer) copyTable(t *manifest.Table, d *table.Damaged, file vfs.File) (table.Properties, error) {
	w, err := table.NewWriter(file, table.WriterOptions{Salt: r.o.Random(), HashSeed: r.state.HashSeed, SparseIndex: t.Level == 0})
	if err != nil {
		return table.Properties{}, err
	}
	lost := false
	var repeats values.Repeats
	it := d.NewIter(func(table.Lost) { lost = true })
	var walk keyspace.Walk
	for batch := it.Next(); batch != nil; batch = it.Next() {
		if err := r.o.Stop(); err != nil {
			return table.Properties{}, err
		}
		if mutant.On(mutant.RepairLosesLast) {
			batch = batch[:len(batch)-1]
		}
		for _, e := range batch {
			if err := w.SetCompression(r.rules(walk.Number(e.Key)).Compression.OfTables(t.Level)); err != nil {
				return table.Properties{}, err
			}
			if err := addAsIs(w, e, &repeats); err != nil {
				return table.Properties{}, err
			}
		}
	}
	if lost && !mutant.On(mutant.RepairUncounted) {
		return table.Properties{}, errNotAll
	}
	if err := w.AddDeletions(d.Deletions()); err != nil {
		return table.Properties{}, err
	}
	return w.Finish()
}

// addAsIs adds an entry, whose value stays where it is.
func addAsIs(w *table.Writer, e base.Entry, repeats *values.Repeats) error {
	if e.Meta.Kind != base.KindPointer {
		return w.Add(e)
	}
	p, err := values.DecodePointer(e.Value)
	if err != nil {
		return errors.Join(errNotAll, err)
	}
	ref := table.ValueFileRef{File: uint64(p.File), Bytes: values.RefBytes(p)}
	if repeats.Next(e.Value) {
		ref.Bytes = 0
	}
	return w.AddPointer(e, ref)
}
