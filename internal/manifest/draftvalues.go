package manifest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// byNumber compares a value file with a number, for binary search.
func byNumber(v LiveValues, num base.FileNum) int { return cmp.Compare(v.Num, num) }

// release subtracts the bytes that t keeps alive from the sums of its value files.
func (d *draft) release(t *Table) error {
	for _, r := range t.Values {
		i, ok := slices.BinarySearchFunc(d.v.Values, r.File, byNumber)
		if !ok || d.v.Values[i].Live < r.Bytes {
			return fmt.Errorf("manifest: the sum of value file %d is less than the %d bytes of table %d", r.File, r.Bytes, t.Num)
		}
		d.takeValues()
		d.v.Values[i].Live -= r.Bytes
	}
	return nil
}

// keep adds the bytes that t keeps alive to the sums of its value files.
func (d *draft) keep(t *Table) error {
	for _, r := range t.Values {
		i, ok := slices.BinarySearchFunc(d.v.Values, r.File, byNumber)
		if !ok {
			return fmt.Errorf("manifest: table %d refers to value file %d, which is not live", t.Num, r.File)
		}
		d.takeValues()
		sum := d.v.Values[i].Live + r.Bytes
		if sum < r.Bytes {
			return fmt.Errorf("manifest: table %d refers to %d bytes of value file %d, above the limit", t.Num, r.Bytes, r.File)
		}
		d.v.Values[i].Live = sum
	}
	return nil
}

// takeValues copies the list of value files unless the draft owns it.
func (d *draft) takeValues() {
	if !d.ownValues {
		d.v.Values, d.ownValues = slices.Clone(d.v.Values), true
	}
}

// dropValues removes value files that no table refers to.
func (d *draft) dropValues(nums []base.FileNum) error {
	if len(nums) == 0 {
		return nil
	}
	nums = slices.Sorted(slices.Values(nums))
	old, next := d.v.Values, make([]LiveValues, 0, len(d.v.Values))
	for _, num := range nums {
		i, ok := slices.BinarySearchFunc(old, num, byNumber)
		switch {
		case !ok:
			return fmt.Errorf("manifest: drop of value file %d, which is not live", num)
		case old[i].Live > 0:
			return fmt.Errorf("manifest: drop of value file %d, but tables refer to %d bytes of it", num, old[i].Live)
		}
		next, old = append(next, old[:i]...), old[i+1:]
	}
	d.setValues(append(next, old...))
	return nil
}

// addValues adds value files. A file replaces a live one with the same number.
func (d *draft) addValues(files []*ValueFile, nextFile uint64) error {
	if len(files) == 0 {
		return nil
	}
	files = slices.SortedFunc(slices.Values(files), func(a, b *ValueFile) int { return cmp.Compare(a.Num, b.Num) })
	old, next := d.v.Values, make([]LiveValues, 0, len(d.v.Values)+len(files))
	for i, f := range files {
		if err := f.check(nextFile); err != nil {
			return err
		}
		if i > 0 && files[i-1].Num == f.Num {
			return fmt.Errorf("manifest: value file %d is added twice", f.Num)
		}
		at, replaces := slices.BinarySearchFunc(old, f.Num, byNumber)
		next, old = append(next, old[:at]...), old[at:]
		added := LiveValues{ValueFile: f}
		if replaces {
			added.Live, old = old[0].Live, old[1:]
		}
		next = append(next, added)
	}
	d.setValues(append(next, old...))
	return d.v.checkNames(files)
}

func (d *draft) setValues(values []LiveValues) {
	if len(values) == 0 {
		values = nil
	}
	d.v.Values, d.ownValues = values, true
}

// checkNames reports value files that share a file name with one of those
// added.
func (v *Version) checkNames(added []*ValueFile) error {
	names := make([]base.FileNum, len(added))
	for i, f := range added {
		names[i] = f.File
	}
	slices.Sort(names)
	names = slices.Compact(names)
	found := 0
	for _, f := range v.Values {
		if f.File < names[0] {
			continue
		}
		if _, ok := slices.BinarySearch(names, f.File); ok {
			found++
		}
	}
	if found != len(names) {
		return fmt.Errorf("manifest: an added value file has the file name of another one, %s or a later name", base.ValueName(names[0]))
	}
	return nil
}
