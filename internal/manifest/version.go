package manifest

import (
	"bytes"
	"slices"
	"sort"

	"github.com/stoatdb/stoat/internal/base"
)

// A Version is the tables and value files that are live at one moment. It is
// immutable: readers hold one, and an edit makes the next.
type Version struct {
	// Levels holds the tables. Level 0 is ordered by descending run, the
	// newest first, and within a run by key; the others by key.
	Levels [Levels][]*Table
	// Values holds the value files, ascending by number, with what is live in
	// each.
	Values []LiveValues
}

// LiveValues is a value file and how many of its bytes tables refer to. The
// rest is garbage. The sum is kept by the edits that add and drop tables, so
// that it is exact at any moment, and after any crash.
type LiveValues struct {
	*ValueFile
	Live uint64
}

// A Place names a table in its level.
type Place struct {
	Level int
	Num   base.FileNum
}

// Tables returns how many tables there are.
func (v *Version) Tables() int {
	n := 0
	for _, tables := range v.Levels {
		n += len(tables)
	}
	return n
}

// Bytes returns the size of the tables of a level. Value files are not in it.
func (v *Version) Bytes(level int) int64 {
	n := int64(0)
	for _, t := range v.Levels[level] {
		n += t.Size
	}
	return n
}

// Value returns the value file with the given number, if it is live.
func (v *Version) Value(num base.FileNum) (LiveValues, bool) {
	i, ok := slices.BinarySearchFunc(v.Values, num, byNumber)
	if !ok {
		return LiveValues{}, false
	}
	return v.Values[i], true
}

// Runs returns how many runs level 0 has.
func (v *Version) Runs() int {
	n := 0
	for i := 0; i < len(v.Levels[0]); i = v.runEnd(i) {
		n++
	}
	return n
}

// Run returns the tables of the i-th newest run of level 0, a part of the list
// of the level. There are Runs of them.
func (v *Version) Run(i int) []*Table {
	start := 0
	for ; i > 0; i-- {
		start = v.runEnd(start)
	}
	end := v.runEnd(start)
	return v.Levels[0][start:end:end]
}

// NextRun returns a number for a run that is newer than all of level 0.
func (v *Version) NextRun() uint64 {
	if len(v.Levels[0]) == 0 {
		return 1
	}
	return v.Levels[0][0].Run + 1
}

// runEnd returns the index behind the run that the table at index start is in.
func (v *Version) runEnd(start int) int {
	rest := v.Levels[0][start:]
	return start + sort.Search(len(rest), func(i int) bool { return rest[i].Run < rest[0].Run })
}

// Overlapping returns the tables of a level that may hold keys from lo to hi;
// hi itself belongs to that unless hiExclusive. A bound that is nil is none.
// The result has the order of the level. Below level 0 it is a part of the
// list of the level; in level 0 it is taken from all runs.
func (v *Version) Overlapping(level int, lo, hi []byte, hiExclusive bool) []*Table {
	if lo != nil && hi != nil {
		if c := bytes.Compare(lo, hi); c > 0 || c == 0 && hiExclusive {
			return nil
		}
	}
	if level > 0 {
		return overlapping(v.Levels[level], lo, hi, hiExclusive)
	}
	var found []*Table
	for start := 0; start < len(v.Levels[0]); {
		end := v.runEnd(start)
		found = append(found, overlapping(v.Levels[0][start:end], lo, hi, hiExclusive)...)
		start = end
	}
	return found
}

// overlapping is Overlapping for one run.
func overlapping(run []*Table, lo, hi []byte, hiExclusive bool) []*Table {
	from, to := 0, len(run)
	if lo != nil {
		from = sort.Search(to, func(i int) bool { return !run[i].EndsBefore(lo) })
	}
	if hi != nil {
		to = sort.Search(to, func(i int) bool {
			c := bytes.Compare(run[i].Smallest, hi)
			return c > 0 || c == 0 && hiExclusive
		})
	}
	if from >= to {
		return nil
	}
	return run[from:to:to]
}
