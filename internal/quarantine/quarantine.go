// Package quarantine remembers the files that background jobs could not read.
//
// Jobs leave such files alone until the database is opened again. A job that tried the same
// damaged file again and again would keep all other work from being done. Compact and
// Collect try again, and tell their caller.
package quarantine

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs"
)

// A Quarantine is the damaged files of one database. The zero value is empty.
// Its methods may be called from many goroutines.
type Quarantine struct {
	adding lock.Mutex[lock.Quarantine] // held to replace known
	known  atomic.Pointer[files]       // nil is none; what it points to never changes
}

// files has the damaged files by the numbers in their names.
type files struct {
	tables map[base.FileNum]bool
	values map[base.FileNum]error // why each is here
}

// Tables returns the damaged tables. The caller must not change the map.
func (q *Quarantine) Tables() map[base.FileNum]bool {
	if known := q.known.Load(); known != nil {
		return known.tables
	}
	return nil
}

// Values returns the value files of which a value could not be read, or to which a damaged
// table refers. It is unknown what is live in the latter. The caller must not change the
// map.
func (q *Quarantine) Values() map[base.FileNum]error {
	if known := q.known.Load(); known != nil {
		return known.values
	}
	return nil
}

// HasValues reports whether a value file is damaged.
func (q *Quarantine) HasValues(f *manifest.ValueFile) bool { return q.Values()[f.File] != nil }

// add adds a file with what is called under the lock.
func (q *Quarantine) add(more func(*files)) {
	q.adding.Lock()
	defer q.adding.Unlock()
	next := files{tables: maps.Clone(q.Tables()), values: maps.Clone(q.Values())}
	if next.tables == nil {
		next = files{tables: map[base.FileNum]bool{}, values: map[base.FileNum]error{}}
	}
	more(&next)
	q.known.Store(&next)
}

// NoteTables adds those of the inputs of a job that cannot be read, if err says
// so.
func (q *Quarantine) NoteTables(inputs []manifest.Place, err error) {
	for _, place := range inputs {
		if unreadable(err, base.TableName(place.Num)) && !q.Tables()[place.Num] {
			q.add(func(f *files) { f.tables[place.Num] = true })
		}
	}
}

// NoteValues adds a value file if err says that it cannot be read, and reports
// whether it does.
func (q *Quarantine) NoteValues(f *manifest.ValueFile, err error) (damaged bool) {
	if !unreadable(err, base.ValueName(f.File)) {
		return false
	}
	q.addValues(f, err)
	return true
}

func (q *Quarantine) addValues(f *manifest.ValueFile, err error) {
	q.add(func(all *files) {
		if all.values[f.File] == nil {
			all.values[f.File] = err
		}
	})
}

// NoteReferred adds the value files of some to which an unreadable table of v refers. A
// table is unreadable if err says so. NoteReferred returns the others.
func (q *Quarantine) NoteReferred(some []*manifest.ValueFile, v *manifest.Version, err error) (others []*manifest.ValueFile) {
	refers := map[base.FileNum]bool{}
	for t := range v.Tables() {
		if !unreadable(err, base.TableName(t.Num)) {
			continue
		}
		for ref := range t.Values.All() {
			refers[ref.File] = true
		}
	}
	for _, f := range some {
		if refers[f.Num] {
			q.addValues(f, err)
		} else {
			others = append(others, f)
		}
	}
	return others
}

// GarbageKept returns why garbage stays in value files of v, or nil.
func (q *Quarantine) GarbageKept(v *manifest.Version) error {
	var errs []error
	for _, f := range v.Values {
		if err := q.Values()[f.File]; err != nil && f.Live < f.Bytes {
			errs = append(errs, fmt.Errorf("%d bytes of garbage stay in %s: %w", f.Bytes-f.Live, base.ValueName(f.File), err))
		}
	}
	return errors.Join(errs...)
}

// ValuesKept returns why values of the keys from lo to hi, exclusive, stay where
// they are, or nil. A nil bound is none.
func (q *Quarantine) ValuesKept(v *manifest.Version, lo, hi []byte) error {
	damaged, told := q.Values(), map[base.FileNum]bool{}
	if len(damaged) == 0 {
		return nil
	}
	var errs []error
	for level := range v.Levels {
		for _, t := range v.Overlapping(level, lo, hi, true) {
			for ref := range t.Values.All() {
				f, ok := v.Value(ref.File)
				if !ok || damaged[f.File] == nil || told[f.File] {
					continue
				}
				told[f.File] = true
				errs = append(errs, fmt.Errorf("values stay in %s: %w", base.ValueName(f.File), damaged[f.File]))
			}
		}
	}
	return errors.Join(errs...)
}

// unreadable reports whether err says that the named file is damaged, or that the
// device does not give its bytes. Running out of descriptors or of space is no
// damage.
func unreadable(err error, name string) bool {
	var corrupt *base.CorruptionError
	if errors.As(err, &corrupt) {
		return corrupt.File == name
	}
	var path *vfs.PathError
	if !errors.As(err, &path) || !errors.Is(path, vfs.ErrIO) {
		return false
	}
	dir, ok := strings.CutSuffix(path.Path, name)
	return ok && !strings.ContainsAny(dir[max(0, len(dir)-1):], "0123456789") // or it is the end of a longer name
}
