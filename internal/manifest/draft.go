package manifest

import (
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// A draft is a version in progress. It starts as a version that readers may hold. It copies
// the list of a level that an edit changes. Changed value files lie beside their list until
// the version is made, so that a change costs the same however many there are. An edit has
// four steps, each on the result of the one before:
//
//	drop tables       subtract what they keep alive in value files
//	drop value files  no table may refer to them any more
//	add value files   references to a replaced one stay
//	add tables        add what they keep alive
//
// After an error, the caller must discard the draft.
type draft struct {
	from *Version // the unchanged version; nil after a change
	v    Version  // its list of value files lacks the changes
	// named finds live tables by number: all that the edit names, or all
	// tables in a draft of many edits.
	named map[base.FileNum]*Table
	many  bool // the draft takes many edits
	// spare holds each level's previous list for reuse, so that a draft of many
	// edits copies without allocating.
	spare [Levels][]*Table
	// values holds the changed value files by number. A dropped one is nil.
	values map[base.FileNum]*LiveValues
	// names holds the file names of live value files: those among the names that the edit
	// adds, or all in a draft of many edits.
	names map[base.FileNum]bool

	keyspaces keyspaceDraft
}

// newDraft returns a draft that takes one edit of v. A nil v is an empty version.
func newDraft(v *Version) *draft {
	if v == nil {
		v = new(Version)
	}
	return &draft{from: v, v: *v, values: map[base.FileNum]*LiveValues{}}
}

// newDraftOfMany returns a draft of the empty version that takes many edits.
func newDraftOfMany() *draft {
	return &draft{many: true, named: map[base.FileNum]*Table{}, values: map[base.FileNum]*LiveValues{},
		names: map[base.FileNum]bool{}, keyspaces: keyspaceDraft{many: true}}
}

// version returns the resulting version. The draft must not be used after it.
func (d *draft) version() *Version {
	if d.from != nil {
		return d.from
	}
	v := d.v
	v.Values = d.liveValues()
	if invariant.Enabled {
		err := v.check()
		invariant.Check(err == nil, "a version after edits: %v", err)
	}
	return &v
}

// apply applies e to the draft. All file numbers must be below nextFile.
func (d *draft) apply(e *Edit, nextFile uint64) error {
	if !e.changesTree() {
		return nil
	}
	d.from = nil
	if !d.many {
		d.named, d.names = d.v.named(e), d.v.namesAmong(e.AddValues)
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
	for t := range v.Tables() {
		if t.Num < first || t.Num > last {
			continue
		}
		if _, ok := slices.BinarySearch(nums, t.Num); ok {
			named[t.Num] = t
		}
	}
	return named
}

// dropTables removes tables from the sums and from named, and returns them by
// level.
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

// addTables adds tables to the sums and to named, and returns them by level.
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
