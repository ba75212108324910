package compact

import (
	"bytes"
	"sort"

	"github.com/stoatdb/stoat/internal/manifest"
)

// A keyRange is the keys from lo to hi. lo is inclusive; hi is exclusive if open is set.
// A nil bound means no bound.
type keyRange struct {
	lo, hi []byte
	open   bool
}

// rangeOf returns the bounds of t.
func rangeOf(t *manifest.Table) keyRange {
	return keyRange{t.Smallest, t.Largest, t.LargestExclusive}
}

// with returns the smallest range that contains r and t.
func (r keyRange) with(t *manifest.Table) keyRange {
	if bytes.Compare(t.Smallest, r.lo) < 0 {
		r.lo = t.Smallest
	}
	if c := bytes.Compare(t.Largest, r.hi); c > 0 || c == 0 && !t.LargestExclusive {
		r.hi, r.open = t.Largest, t.LargestExclusive
	}
	return r
}

// contains reports whether all keys of t are in r, whose hi is exclusive.
func (r keyRange) contains(t *manifest.Table) bool {
	return bytes.Compare(t.Smallest, r.lo) >= 0 && (r.hi == nil || t.EndsBefore(r.hi))
}

// hull returns the smallest range that contains all tables. There must be at least one.
func hull(tables []*manifest.Table) keyRange {
	r := rangeOf(tables[0])
	for _, t := range tables[1:] {
		r = r.with(t)
	}
	return r
}

// before reports whether all keys of r come before those of t.
func (r keyRange) before(t *manifest.Table) bool {
	if r.hi == nil {
		return false
	}
	c := bytes.Compare(r.hi, t.Smallest)
	return c < 0 || c == 0 && r.open
}

// after reports whether all keys of r come after those of t.
func (r keyRange) after(t *manifest.Table) bool { return r.lo != nil && t.EndsBefore(r.lo) }

// within returns the tables of an ordered list that overlap r, as a slice of the list.
func within(tables []*manifest.Table, r keyRange) []*manifest.Table {
	_, in := gapAround(tables, r)
	return in
}

// A gap is the keys strictly between two tables of a level; nil is the end of the level.
// Tables within the gap around some tables can be merged with them and overlap no others.
type gap struct{ left, right *manifest.Table }

// gapAround returns the tables of an ordered list that overlap r, and the gap around
// them.
func gapAround(tables []*manifest.Table, r keyRange) (gap, []*manifest.Table) {
	from := sort.Search(len(tables), func(i int) bool { return !r.after(tables[i]) })
	to := from + sort.Search(len(tables)-from, func(i int) bool { return r.before(tables[from+i]) })
	var g gap
	if from > 0 {
		g.left = tables[from-1]
	}
	if to < len(tables) {
		g.right = tables[to]
	}
	return g, tables[from:to]
}

// reachesOutLeft and reachesOutRight report whether t has keys outside the gap, on that
// side.
func (g gap) reachesOutLeft(t *manifest.Table) bool {
	return g.left != nil && !g.left.EndsBefore(t.Smallest)
}

func (g gap) reachesOutRight(t *manifest.Table) bool {
	return g.right != nil && !t.EndsBefore(g.right.Smallest)
}

// meeting returns the tables of an ordered list that have keys in the gap.
func (g gap) meeting(tables []*manifest.Table) []*manifest.Table {
	if l := g.left; l != nil {
		tables = tables[sort.Search(len(tables), func(i int) bool { return !g.leftOfAll(tables[i]) }):]
	}
	if r := g.right; r != nil {
		tables = tables[:sort.Search(len(tables), func(i int) bool {
			return bytes.Compare(tables[i].Smallest, r.Smallest) >= 0
		})]
	}
	return tables
}

// leftOfAll reports whether t ends before the gap begins.
func (g gap) leftOfAll(t *manifest.Table) bool {
	c := bytes.Compare(t.Largest, g.left.Largest)
	return c < 0 || c == 0 && (t.LargestExclusive || !g.left.LargestExclusive)
}

// runsOf returns the runs of level 0, the newest first, each ordered by key.
func runsOf(v *manifest.Version) [][]*manifest.Table {
	runs := make([][]*manifest.Table, v.Runs())
	for i := range runs {
		runs[i] = v.Run(i)
	}
	return runs
}

func bytesOf(tables []*manifest.Table) int64 {
	n := int64(0)
	for _, t := range tables {
		n += t.Size
	}
	return n
}
