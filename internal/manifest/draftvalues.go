package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// byNumber compares a value file with a number, for binary search.
func byNumber(v LiveValues, num base.FileNum) int { return cmp.Compare(v.Num, num) }

// value returns the live value file with the given number, or nil. The caller may change it.
func (d *draft) value(num base.FileNum) *LiveValues {
	f, changed := d.values[num]
	if changed {
		return f
	}
	if before, live := d.v.Value(num); live {
		f = new(LiveValues)
		*f = before
		d.values[num] = f
	}
	return f
}

// release subtracts the bytes that t keeps alive from the sums of its value files.
func (d *draft) release(t *Table) error {
	for r := range t.Values.All() {
		f := d.value(r.File)
		if f == nil || f.Live < r.Bytes {
			return fmt.Errorf("manifest: the sum of value file %d is less than the %d bytes of table %d", r.File, r.Bytes, t.Num)
		}
		f.Live -= r.Bytes
	}
	return nil
}

// keep adds the bytes that t keeps alive to the sums of its value files.
func (d *draft) keep(t *Table) error {
	for r := range t.Values.All() {
		f := d.value(r.File)
		if f == nil {
			return fmt.Errorf("manifest: table %d refers to value file %d, which is not live", t.Num, r.File)
		}
		sum := f.Live + r.Bytes
		if sum < r.Bytes {
			return fmt.Errorf("manifest: table %d refers to %d bytes of value file %d, above the limit", t.Num, r.Bytes, r.File)
		}
		f.Live = sum
	}
	return nil
}

// dropValues removes value files that no table refers to.
func (d *draft) dropValues(nums []base.FileNum) error {
	for _, num := range nums {
		f := d.value(num)
		switch {
		case f == nil:
			return fmt.Errorf("manifest: drop of value file %d, which is not live", num)
		case f.Live > 0:
			return fmt.Errorf("manifest: drop of value file %d, but tables refer to %d bytes of it", num, f.Live)
		}
		d.forget(f.ValueFile)
		d.values[num] = nil
	}
	return nil
}

// addValues adds value files. A file replaces a live one with the same number.
func (d *draft) addValues(files []*ValueFile, nextFile uint64) error {
	files = slices.SortedFunc(slices.Values(files), func(a, b *ValueFile) int { return cmp.Compare(a.Num, b.Num) })
	for i, f := range files {
		if err := f.check(nextFile); err != nil {
			return err
		}
		if i > 0 && files[i-1].Num == f.Num {
			return fmt.Errorf("manifest: value file %d is added twice", f.Num)
		}
		d.v.ValueFileBytes += f.Bytes
		if old := d.value(f.Num); old != nil {
			d.forget(old.ValueFile)
			old.ValueFile = f
		} else {
			d.values[f.Num] = &LiveValues{ValueFile: f}
		}
	}
	// Names come last: an added file may take that of any file that the edit replaces.
	for _, f := range files {
		if d.names[f.File] {
			return fmt.Errorf("manifest: value file %d has the file name of another one, %s", f.Num, base.ValueName(f.File))
		}
		d.names[f.File] = true
	}
	return nil
}

// forget takes a dropped or replaced value file out of the sum and the names.
func (d *draft) forget(f *ValueFile) {
	d.v.ValueFileBytes -= f.Bytes
	delete(d.names, f.File)
}

// liveValues returns the list of value files with the changes.
func (d *draft) liveValues() []LiveValues {
	if len(d.values) == 0 {
		return d.v.Values
	}
	old := d.v.Values
	size := len(old) // of the next list, which lives long
	for num, f := range d.values {
		switch _, live := d.v.Value(num); {
		case f != nil && !live:
			size++
		case f == nil && live:
			size--
		}
	}
	next := make([]LiveValues, 0, size)
	for _, num := range slices.Sorted(maps.Keys(d.values)) {
		at, replaces := slices.BinarySearchFunc(old, num, byNumber)
		next, old = append(next, old[:at]...), old[at:]
		if replaces {
			old = old[1:]
		}
		if f := d.values[num]; f != nil {
			next = append(next, *f)
		}
	}
	next = append(next, old...)
	invariant.Check(len(next) == size, "%d value files, want %d", len(next), size)
	if len(next) == 0 {
		return nil
	}
	return next
}

// namesAmong returns which file names of added value files live ones have.
func (v *Version) namesAmong(added []*ValueFile) map[base.FileNum]bool {
	if len(added) == 0 {
		return nil
	}
	names := make([]base.FileNum, len(added))
	for i, f := range added {
		names[i] = f.File
	}
	slices.Sort(names)
	live := make(map[base.FileNum]bool, len(names))
	for _, f := range v.Values {
		if f.File < names[0] {
			continue
		}
		if _, ok := slices.BinarySearch(names, f.File); ok {
			live[f.File] = true
		}
	}
	return live
}
