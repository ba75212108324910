package manifest

import (
	"bytes"
	"iter"
	"slices"
	"sort"

	"github.com/stoatdb/stoat/internal/base"
)

// A Version holds the tables and value files that are live at one moment. It is
// immutable: readers hold one, and an edit makes the next.
type Version struct {
	// Levels holds the tables. Level 0 is in descending order of runs, the newest
	// first, and by key within a run. The other levels are in key order.
	Levels [Levels][]*Table
	// Values holds the value files, ascending by number, with the live bytes of
	// each.
	Values []LiveValues
	// ValueFileBytes is the sum of Bytes of all value files. Edits maintain it.
	ValueFileBytes uint64
}

// LiveValues is a value file with the number of its bytes that tables refer to.
// The rest is garbage. Edits that add and drop tables maintain the sum, so
// that it is always exact, even after a crash.
type LiveValues struct {
	*ValueFile
	Live uint64
}

// A Place names a table in its level.
type Place struct {
	Level int
	Num   base.FileNum
}

// Bytes returns the size in bytes of a level's tables, without value files.
func (v *Version) Bytes(level int) int64 {
	n := int64(0)
	for _, t := range v.Levels[level] {
		n += t.Size
	}
	return n
}

// Tables returns the tables of all levels, from the first level on.
func (v *Version) Tables() iter.Seq[*Table] {
	return func(yield func(*Table) bool) {
		for _, tables := range v.Levels {
			for _, t := range tables {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// TableBytes returns the size of all tables in bytes.
func (v *Version) TableBytes() int64 {
	n := int64(0)
	for level := range v.Levels {
		n += v.Bytes(level)
	}
	return n
}

// LiveBytes returns TableBytes, and the size of the values that tables refer to.
func (v *Version) LiveBytes() int64 {
	n := v.TableBytes()
	for _, f := range v.Values {
		n += int64(f.Live)
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

// Runs returns the number of runs in level 0.
func (v *Version) Runs() int {
	n := 0
	for i := 0; i < len(v.Levels[0]); i = v.runEnd(i) {
		n++
	}
	return n
}

// Run returns the tables of the i-th newest run of level 0, as a slice of the
// level's list. i is below Runs.
func (v *Version) Run(i int) []*Table {
	start := 0
	for ; i > 0; i-- {
		start = v.runEnd(start)
	}
	end := v.runEnd(start)
	return v.Levels[0][start:end:end]
}

// NextRun returns a run number that is newer than all of level 0.
func (v *Version) NextRun() uint64 {
	if len(v.Levels[0]) == 0 {
		return 1
	}
	return v.Levels[0][0].Run + 1
}

// runEnd returns the index behind the run of the table at index start.
func (v *Version) runEnd(start int) int {
	rest := v.Levels[0][start:]
	return start + sort.Search(len(rest), func(i int) bool { return rest[i].Run < rest[0].Run })
}

// Overlapping returns the tables of a level that may hold keys from lo to hi. hi
// is inclusive unless hiExclusive is set. A nil bound means no bound. The result
// has the order of the level. Below level 0 it is a slice of the level's list;
// in level 0 it comes from all runs.
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
