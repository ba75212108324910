package tree

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/internal/table"
)

// Load opens tables that were just written, and fetches and verifies all of them. It
// stops when the mapped files, without those in drops, would hold more than limit
// bytes in memory, or when stop returns true. Otherwise the first reads of a new table
// would each pay for the parts they touch. After a burst of writes most reads are of
// new tables.
//
// It only does early what reads would do. So it leaves errors to the reads.
func (f *Files) Load(tables []*manifest.Table, drops []manifest.Place, limit int64, stop func() bool) {
	held := f.residentBytes(drops)
	for _, m := range tables {
		if held += m.Size; held > limit || stop() {
			return
		}
		f.mu.Lock()
		t := f.table(m)
		f.mu.Unlock()
		if t.tableHandle.reader.Load() != nil {
			continue // it only moved to another level
		}
		r, err := f.reader(t)
		if err != nil {
			continue
		}
		_ = r.Load(stop) // a read verifies the rest and reports the error
	}
}

// miss records that LoadMissed has something to do.
func (f *Files) miss() {
	f.missed.Store(true)
	if f.opts.Used != nil {
		f.opts.Used()
	}
}

// HasMissed reports whether LoadMissed has something to do.
func (f *Files) HasMissed() bool { return f.missed.Load() }

// LoadMissed loads a table of v of which single reads have found many pieces that were not in
// memory. It asks the system to keep the table there. Reads of a cold table otherwise wait for
// the device twice, for the index and for the keys, until they have been everywhere. LoadMissed
// skips a table with which those of v would hold more than limit bytes in memory.
//
// The caller keeps the files of v until LoadMissed returns. So it loads one table at a time,
// and asks to be called again. It ends early when stop returns true. It leaves errors to the
// reads.
func (f *Files) LoadMissed(v *manifest.Version, limit int64, stop func() bool) {
	f.missed.Store(false)
	var readers []*table.Reader
	held := int64(0)
	f.mu.Lock()
	for t := range v.Tables() {
		if h := f.tables[t.Num]; h != nil {
			if r := h.reader.Load(); r != nil {
				readers = append(readers, r)
				held += r.Gauge().Bytes()
			}
		}
	}
	f.mu.Unlock()
	for _, r := range readers {
		if !r.TakeMissed() || held+max(0, r.Properties().Size-r.Gauge().Bytes()) > limit {
			continue
		}
		f.miss()                 // there may be others
		if r.Load(stop) == nil { // a read verifies the rest and reports the error
			_ = r.KeepUsed() // only a hint
		}
		return
	}
}

// LoadValues loads a value file that will replace old into memory, before its first
// read, if most of old is in memory. Otherwise the first read of each part would have
// to fetch what was in memory before.
//
// It leaves errors to the reads.
func (f *Files) LoadValues(fresh, old *manifest.ValueFile) {
	f.mu.Lock()
	handle := f.values[old.File]
	f.mu.Unlock()
	if handle == nil {
		return
	}
	if r := handle.reader.Load(); r == nil || 2*r.Gauge().Bytes() < old.Size {
		return
	}
	f.mu.Lock()
	file := f.valueFile(fresh)
	f.mu.Unlock()
	if r, err := f.valueReader(file); err == nil {
		_ = r.Load()
	}
}

// residentBytes returns the approximate number of bytes of mapped files in memory, without
// the tables in drops.
func (f *Files) residentBytes(drops []manifest.Place) (bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for num, h := range f.tables {
		if r := h.reader.Load(); r != nil && !dropped(drops, num) {
			bytes += r.Gauge().Bytes()
		}
	}
	for _, h := range f.values {
		if r := h.reader.Load(); r != nil {
			bytes += r.Gauge().Bytes()
		}
	}
	return bytes
}

func dropped(drops []manifest.Place, num base.FileNum) bool {
	return slices.ContainsFunc(drops, func(p manifest.Place) bool { return p.Num == num })
}

// OpenAll opens all files of a version, so that the view of the version can be read
// whatever happens to the names of the files. If that fails, or panics because of a page, it
// closes the files that it has opened: no reader has begun to use them.
func (f *Files) OpenAll(v *manifest.Version) (err error) {
	var o opening
	defer func() {
		if !o.done {
			err = errors.Join(err, f.undo(&o))
		}
	}()
	if err = f.openAll(v, &o); err == nil {
		o.done = true
	}
	return err
}

// An opening is what OpenAll has done.
type opening struct {
	// opened are the files that it has opened, or tried to open. tables and values are those
	// among them that Files did not know.
	opened         []Resident
	tables, values []base.FileNum
	done           bool
}

// undo closes the files, and forgets those that were new.
func (f *Files) undo(o *opening) error {
	errs := []error{f.Drop(o.tables), f.DropValues(o.values)}
	for i := range o.opened {
		if r := o.opened[i].Retire(); r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

func (f *Files) openAll(v *manifest.Version, o *opening) error {
	for _, level := range v.Levels {
		for _, m := range level {
			f.mu.Lock()
			known := f.tables[m.Num] != nil
			t := f.table(m)
			f.mu.Unlock()
			if r := t.tableHandle.reader.Load(); r != nil {
				if r.Properties().Salt != m.Salt {
					return otherFile(base.TableName(m.Num))
				}
				continue
			}
			o.opened = append(o.opened, Resident{residency.Tables, t.tableHandle})
			if !known {
				o.tables = append(o.tables, m.Num)
			}
			if _, err := f.reader(t); err != nil {
				return err
			}
		}
	}
	for _, m := range v.Values {
		f.mu.Lock()
		known := f.values[m.File] != nil
		file := f.valueFile(m.ValueFile)
		f.mu.Unlock()
		if r := file.reader.Load(); r != nil {
			if r.Salt() != m.Salt {
				return otherFile(base.ValueName(m.File))
			}
			continue
		}
		o.opened = append(o.opened, Resident{residency.Values, file.valueHandle})
		if !known {
			o.values = append(o.values, m.File)
		}
		if _, err := f.valueReader(file); err != nil {
			return err
		}
	}
	return nil
}

// otherFile returns the error for an open file whose name now belongs to another file. In
// that case the manifest lost the edit that had named the open file.
func otherFile(name string) error {
	return fmt.Errorf("%w: another file has the name %s", base.ErrStale, name)
}
