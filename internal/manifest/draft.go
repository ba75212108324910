package manifest

import (
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// A draft is a version in the making. It begins as one that readers may hold,
// and copies of it what an edit changes: the list of a level, the list of value
// files. An edit happens in four steps, each on what the one before left:
//
//	tables dropped      what they keep alive in value files is subtracted
//	value files dropped nothing may refer to them any more
//	value files added   what refers to one that is replaced stays
//	tables added        what they keep alive is added
//
// After an error a draft is of no use.
type draft struct {
	from *Version // as long as nothing has changed, or nil
	v    Version
	// named finds live tables by number: all that the edit names, or, in a
	// draft of many edits, all.
	named map[base.FileNum]*Table
	many  bool
	// spare holds for each level the list before the present one, to be used
	// again: a draft of many edits then copies, but does not allocate.
	spare [Levels][]*Table
	// ownValues says that no version has the list of value files.
	ownValues bool
}

// newDraft returns a draft that takes one edit of v; nil is an empty version.
func newDraft(v *Version) *draft {
	if v == nil {
		v = new(Version)
	}
	return &draft{from: v, v: *v}
}

// newDraftOfMany returns a draft of the empty version that takes many edits.
func newDraftOfMany() *draft {
	return &draft{many: true, named: map[base.FileNum]*Table{}}
}

// version returns what the edits have made. The draft ends with it.
func (d *draft) version() *Version {
	if d.from != nil {
		return d.from
	}
	v := d.v
	if invariant.Enabled {
		err := v.check()
		invariant.Check(err == nil, "a version after edits: %v", err)
	}
	return &v
}

// apply changes the draft as e says. Numbers of files are below nextFile.
func (d *draft) apply(e *Edit, nextFile uint64) error {
	if !e.changesTree() {
		return nil
	}
	d.from = nil
	if !d.many {
		d.named = d.v.named(e)
	}
	drops, err := d.dropTables(e.DropTables)
	if err != nil {
		return err
	}
	if err := d.dropValues(e.DropValues); err != nil {
		return err
	}
	if err := d.addValues(e.AddValues, nextFile); err != nil {
		return err
	}
	adds, err := d.addTables(e.AddTables, nextFile)
	if err != nil {
		return err
	}
	for level := range Levels {
		if err := d.merge(level, drops[level], adds[level]); err != nil {
			return err
		}
	}
	return nil
}

// named returns the live tables that e names, by number.
func (v *Version) named(e *Edit) map[base.FileNum]*Table {
	nums := make([]base.FileNum, 0, len(e.DropTables)+len(e.AddTables))
	for _, p := range e.DropTables {
		nums = append(nums, p.Num)
	}
	for _, t := range e.AddTables {
		nums = append(nums, t.Num)
	}
	if len(nums) == 0 {
		return nil
	}
	slices.Sort(nums)
	first, last := nums[0], nums[len(nums)-1]
	named := make(map[base.FileNum]*Table, len(nums))
	for _, tables := range v.Levels {
		for _, t := range tables {
			if t.Num < first || t.Num > last {
				continue
			}
			if _, ok := slices.BinarySearch(nums, t.Num); ok {
				named[t.Num] = t
			}
		}
	}
	return named
}

// dropTables takes tables out of the sums and out of named, and returns them
// by level.
func (d *draft) dropTables(places []Place) (drops [Levels][]*Table, err error) {
	for _, p := range places {
		t := d.named[p.Num]
		if t == nil || t.Level != p.Level {
			return drops, fmt.Errorf("manifest: drop of table %d, which is not in level %d", p.Num, p.Level)
		}
		if err := d.release(t); err != nil {
			return drops, err
		}
		delete(d.named, p.Num)
		drops[t.Level] = append(drops[t.Level], t)
	}
	return drops, nil
}

// addTables puts tables into the sums and into named, and returns them by
// level.
func (d *draft) addTables(tables []*Table, nextFile uint64) (adds [Levels][]*Table, err error) {
	for _, t := range tables {
		if err := t.check(); err != nil {
			return adds, err
		}
		switch {
		case uint64(t.Num) >= nextFile:
			return adds, fmt.Errorf("manifest: table %d, but the next file is %d", t.Num, nextFile)
		case d.named[t.Num] != nil:
			return adds, fmt.Errorf("manifest: table %d is added twice", t.Num)
		}
		if err := d.keep(t); err != nil {
			return adds, err
		}
		d.named[t.Num] = t
		adds[t.Level] = append(adds[t.Level], t)
	}
	return adds, nil
}
