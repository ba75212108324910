package compact

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/stoatdb/stoat/internal/manifest"
)

// A column is all tables, of all levels, that meet each other, directly or through
// others, and so all that there is of their keys. Merged into the last level it
// leaves what can be read and nothing else: neither a deletion nor what one hides,
// if no snapshot needs them. The tables of every version fall into columns. So
// when all is deleted, each column can be merged however little room there is.
//
// It is the last thing to do where there is little room. A narrower merge leaves
// out what reaches beyond it, the newest deletions first of all, and one that goes to
// the next level takes its deletions along.

// Columns returns a plan for each column whose inputs are more than there is room
// for, that has deletions, and of which so little may be left that it fits and is
// worth it, those first of which the least part may be left. How much it is has to be
// found out: which deletions are of the same key, and which hide nothing, no
// version tells.
func Columns(v *manifest.Version, s Shape) []Plan {
	p := newPicker(v, s)
	type choice struct {
		plan Plan
		left float64 // the part of it
	}
	var choices []choice
	for _, c := range columnsOf(v) {
		plan := Plan{Reason: ReasonDeletions, OutputLevel: last, Inputs: c}
		all := plan.all()
		reads := bytesOf(all)
		if p.s.OutputMax == 0 || reads <= p.s.OutputMax || p.anyDamaged(all) || !slices.ContainsFunc(all, deletes) {
			continue
		}
		if least := plan.leastLeft(p.s); least <= p.s.OutputMax && WorthColumn(reads, least) {
			choices = append(choices, choice{plan.finish(v, p.s), float64(least) / float64(reads)})
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

// WorthColumn reports whether a column of so many bytes is worth merging of which so
// many are left.
func WorthColumn(reads, left int64) bool { return left <= reads-reads/columnPart }

// columnPart is the part of a column that must go.
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
	// Within a column the tables of a level stay in their order, newest run first.
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

// leastLeft returns about how many bytes are left at least of a column: each of its
// deletions hides one entry of a run, or of a level, at most. What range deletions
// hide nobody knows.
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
