package compact

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/stoatdb/stoat/internal/manifest"
)

// A column is a maximal set of tables, of all levels, that overlap directly or through
// others. So it holds every version of its keys. A merge of a column into the last level
// leaves only what can be read. It drops all tombstones and what they hide, unless
// snapshots need them. Every version of the tree divides into columns. So after everything
// is deleted, each column can be merged in little space.
//
// It is the last resort on a nearly full disk. A narrower merge leaves out tables that
// extend beyond it, with the newest tombstones. A merge into the next level keeps its
// tombstones.

// Columns returns a plan for each column that may be worth merging. Its inputs exceed the
// room, it has tombstones, and its smallest possible result fits and removes enough. The
// column with the smallest possible fraction left comes first. Only the merge shows the
// true result: no metadata tells which tombstones are of the same key, and which hide
// nothing.
func Columns(v *manifest.Version, s Shape) []Plan {
	p := newPicker(v, s)
	type choice struct {
		plan Plan
		left float64 // the smallest possible fraction left
	}
	var choices []choice
	for _, c := range columnsOf(p.v) {
		plan := Plan{Reason: ReasonDeletions, OutputLevel: last, Inputs: c}
		all := plan.Tables()
		reads := bytesOf(all)
		if p.s.OutputMax == 0 || reads <= p.s.OutputMax || !slices.ContainsFunc(all, deletes) {
			continue
		}
		if least := plan.leastLeft(p.s); least <= p.s.OutputMax && least <= reads-reads/columnPart {
			choices = append(choices, choice{plan.finish(p.v, p.s), float64(least) / float64(reads)})
		}
	}
	slices.SortStableFunc(choices, func(a, b choice) int { return cmp.Compare(a.left, b.left) })
	plans := make([]Plan, 0, len(choices))
	for _, c := range choices {
		if !c.plan.Move {
			plans = append(plans, c.plan)
		}
	}
	return plans
}

// columnPart is a divisor: a merge must be able to remove 1/columnPart of a column.
const columnPart = 8

func deletes(t *manifest.Table) bool { return t.Deletions+t.RangeDeletions > 0 }

// columnsOf returns the columns of a version, in the order of their keys.
func columnsOf(v *manifest.Version) (columns [][manifest.Levels][]*manifest.Table) {
	type place struct {
		level int
		table *manifest.Table
	}
	var all []place
	for level, tables := range v.Levels {
		for _, t := range tables {
			all = append(all, place{level, t})
		}
	}
	// Within a column, newestFirst below restores the order of level 0.
	slices.SortStableFunc(all, func(a, b place) int { return bytes.Compare(a.table.Smallest, b.table.Smallest) })
	var hull keyRange
	for i, at := range all {
		if i == 0 || hull.before(at.table) {
			columns = append(columns, [manifest.Levels][]*manifest.Table{})
			hull = rangeOf(at.table)
		}
		hull = hull.with(at.table)
		c := &columns[len(columns)-1]
		c[at.level] = append(c[at.level], at.table)
	}
	for i := range columns {
		newestFirst(columns[i][0])
	}
	return columns
}

// leastLeft estimates the smallest number of bytes left of a column. Each tombstone
// hides at most one entry of each run or level. A range tombstone may hide everything.
func (p *Plan) leastLeft(s Shape) int64 {
	type run struct {
		level int
		run   uint64
	}
	type kept struct{ bytes, entries float64 }
	runs, deletions := map[run]kept{}, 0.0
	for level, tables := range p.Inputs {
		for _, t := range tables {
			if t.RangeDeletions > 0 {
				return 0
			}
			deletions += float64(t.Deletions)
			at := run{level, 0}
			if level == 0 {
				at.run = t.Run
			}
			gone := t.Deletions + s.expired(t)
			part := float64(t.Entries-min(gone, t.Entries)) / float64(max(1, t.Entries))
			k := runs[at]
			runs[at] = kept{k.bytes + part*float64(t.Size), k.entries + part*float64(t.Entries)}
		}
	}
	least := 0.0
	for _, k := range runs {
		least = max(least, k.bytes*(1-min(1, deletions/max(1, k.entries))))
	}
	return int64(least)
}
