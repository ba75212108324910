package compact

import (
	"slices"

	"github.com/stoatdb/stoat/internal/manifest"
)

// A damaged table stays where it is. So does each newer table over a table that stays:
// newer versions must not go below older ones. The picker plans as if these tables were not
// there, with two exceptions. It drops or moves such tables, because a job does both
// without reading them. It merges the runs of level 0 over a damaged table with each other.

// withoutStuck returns p without the tables that stay. Without damage it returns p.
func (p *picker) withoutStuck() *picker {
	if len(p.s.Damaged) == 0 {
		return p
	}
	rest, v := *p, *p.v
	rest.v, rest.runs = &v, nil
	remove := func(tables []*manifest.Table) (others []*manifest.Table) {
		over := len(rest.s.stuck) // a table does not overlap others of its list
		for _, t := range tables {
			if p.s.Damaged[t.Num] || slices.ContainsFunc(rest.s.stuck[:over], t.Overlaps) {
				rest.s.stuck = append(rest.s.stuck, t)
			} else {
				others = append(others, t)
			}
		}
		return others
	}
	for level := last; level > 0; level-- {
		v.Levels[level] = remove(v.Levels[level])
	}
	v.Levels[0] = nil
	for _, run := range slices.Backward(p.runs) {
		if others := remove(run); len(others) > 0 {
			rest.runs = append(rest.runs, others)
			v.Levels[0] = append(slices.Clone(others), v.Levels[0]...)
		}
	}
	slices.Reverse(rest.runs)
	return &rest
}

// stuckIn returns the tables that stay and have keys in r.
func (s *Shape) stuckIn(r keyRange) (stuck []*manifest.Table) {
	for _, t := range s.stuck {
		if !r.before(t) && !r.after(t) {
			stuck = append(stuck, t)
		}
	}
	return stuck
}

// mergeStuck merges the newest runs of level 0 with each other, when together with the
// tables that stay they are too many for readers.
func (p *picker) mergeStuck() (Plan, bool) {
	if len(p.s.stuck) == 0 || p.whole.depth() < p.s.RunsMax {
		return Plan{}, false
	}
	return p.mergeRuns(ReasonRuns)
}
