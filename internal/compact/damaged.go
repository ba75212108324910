package compact

import (
	"bytes"
	"slices"

	"github.com/stoatdb/stoat/internal/manifest"
)

// A damaged table stays where it is. So does everything that must not pass it: newer
// versions may not go below it, and it may not go below older ones. All other plans are
// picked as if it were the edge of its level.

// damaged reports whether t cannot be read.
func (p *picker) damaged(t *manifest.Table) bool { return p.s.Damaged[t.Num] }

// anyDamaged reports whether one of the tables cannot be read.
func (p *picker) anyDamaged(tables []*manifest.Table) bool {
	return len(p.s.Damaged) > 0 && slices.ContainsFunc(tables, p.damaged)
}

// stuck reports whether t, of a level below level 0, cannot go down because of damage
// or lack of room.
func (p *picker) stuck(t *manifest.Table, level int) bool {
	var below []*manifest.Table
	if level < last {
		below = within(p.v.Levels[level+1], rangeOf(t))
	}
	return p.damaged(t) || p.anyDamaged(below) ||
		p.noRoom(t.Size+bytesOf(below), func() Plan {
			plan := Plan{OutputLevel: min(level+1, last)}
			plan.Inputs[level] = []*manifest.Table{t}
			if level < last {
				plan.Inputs[level+1] = below
			}
			return plan.finish(p.v, p.s)
		})
}

// allStuck reports whether no table of a level can go down.
func (p *picker) allStuck(level int) bool {
	return !slices.ContainsFunc(p.v.Levels[level], func(t *manifest.Table) bool { return !p.stuck(t, level) })
}

// findStuck finds the tables of level 0 that cannot go down. Without damage there are
// none.
func (p *picker) findStuck() {
	if len(p.s.Damaged) == 0 {
		return
	}
	p.stuck0 = map[*manifest.Table]bool{}
	for i, run := range p.runs {
		for _, t := range run {
			if _, _, ok := p.gapOver(i, t); !ok {
				p.stuck0[t] = true
			}
		}
	}
}

// overDamage reports whether t, of the given level, cannot go down because of damage.
func (p *picker) overDamage(t *manifest.Table, level int) bool {
	switch {
	case len(p.s.Damaged) == 0:
		return false
	case level == 0:
		return p.stuck0[t]
	}
	return p.damaged(t) || level < last && p.anyDamaged(within(p.v.Levels[level+1], rangeOf(t)))
}

// movableBytes returns the bytes of a level without tables stuck over damage. Those make
// no level too large: a plan could not move them, and would merge all others again and
// again instead.
func (p *picker) movableBytes(level int) int64 {
	n := p.v.Bytes(level)
	if len(p.s.Damaged) == 0 {
		return n
	}
	for _, t := range p.v.Levels[level] {
		if p.overDamage(t, level) {
			n -= t.Size
		}
	}
	return n
}

// mergeStuck merges the newest runs of level 0 with each other, when together with the
// stuck tables they are too many for readers.
func (p *picker) mergeStuck() (Plan, bool) {
	if len(p.stuck0) == 0 || p.depth(nil) < p.s.RunsMax {
		return Plan{}, false
	}
	return p.mergeRuns(ReasonRuns)
}

// around narrows a gap of the base around the keys of r, so that the damaged tables of
// level 0 stay outside.
func (p *picker) around(g gap, r keyRange) gap {
	if len(p.s.Damaged) == 0 {
		return g
	}
	for _, run := range p.runs {
		for _, t := range run {
			switch {
			case !p.damaged(t):
			case r.after(t) && (g.left == nil || !g.leftOfAll(t)):
				g.left = t
			case r.before(t) && (g.right == nil || bytes.Compare(t.Smallest, g.right.Smallest) < 0):
				g.right = t
			}
		}
	}
	return g
}
