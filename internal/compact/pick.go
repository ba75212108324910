package compact

import "github.com/stoatdb/stoat/internal/manifest"

// A picker is one question to Pick and what was found out about it.
type picker struct {
	v      *manifest.Version
	s      Shape
	runs   [][]*manifest.Table // of level 0, newest first
	target targets
	base   int
	stuck0 map[*manifest.Table]bool // see overDamage
}

func newPicker(v *manifest.Version, s Shape) *picker {
	p := &picker{v: v, s: s.withDefaults(), runs: runsOf(v)}
	p.target = targetsOf(v, p.s)
	p.base = baseOf(v, p.target)
	p.findStuck()
	return p
}

// Pick returns what is most worth doing with v, or false when nothing is. It
// does no I/O and takes no lock: same version in, same plan out.
//
// What costs nothing comes first, then what has outgrown its size the most,
// then garbage, and what only makes reading faster when there is time for it. What
// only makes fewer files comes last.
func Pick(v *manifest.Version, s Shape) (Plan, bool) {
	p := newPicker(v, s)
	if plan, ok := p.pickDead(); ok {
		return plan, true
	}
	if plan, ok := p.pickMove(); ok {
		return plan, true
	}
	if plan, ok := p.pickSize(); ok {
		return plan, true
	}
	if plan, ok := p.pickDeletions(); ok {
		return plan, true
	}
	if plan, ok := p.pickGarbage(); ok {
		return plan, true
	}
	if p.s.Idle {
		if plan, ok := p.pickIdle(); ok {
			return plan, true
		}
	}
	if plan, ok := p.pickNeighbours(); ok {
		return plan, true
	}
	return p.pickJoin(joinFiles, unasked)
}

// pickSize works on what is furthest beyond its size: level 0 or a level
// below it.
func (p *picker) pickSize() (Plan, bool) {
	level, score := p.worstLevel()
	runs := float64(p.depth(p.stuck0)) / float64(p.s.RunsMax)
	level0 := float64(p.free(0)) / float64(p.s.BaseSizeMin)
	values := p.valueScore()
	if most := max(runs, level0, values); most >= 1 && most >= score {
		why := ReasonLevel0
		switch {
		case values > max(runs, level0):
			why = ReasonValues
		case runs >= level0:
			why = ReasonRuns
		}
		if plan, ok := p.pickLevel0(why); ok {
			return plan, true
		} // all of it is in the way of damaged tables
	}
	if score < 1 {
		return p.mergeStuck()
	}
	return p.down(p.pickLevel(level), level, ReasonLevel), true
}

// valueScore is how near the values that level 0 refers to are to their bound.
func (p *picker) valueScore() float64 {
	newest := p.newestValues()
	if newest == 0 {
		return 0
	}
	all := uint64(0)
	for _, f := range p.v.Values {
		all += f.Bytes
	}
	refers := float64(newest) / float64(max(uint64(p.s.ValuesMin), all/valuesPart))
	hides := p.s.Replacing * float64(newest) / float64(max(uint64(p.s.ValuesMin/8), all/valuesPart))
	return max(refers, hides)
}

// valuesPart is the part of all values that level 0 may refer to: a smaller one
// finds garbage sooner and merges more often.
const valuesPart = 16

// NewestValues returns how many bytes of values level 0 refers to. How much of
// what they replaced is garbage is not known yet. What is stuck over a damaged
// table does not count: of that it will not be known however long one waits.
func NewestValues(v *manifest.Version, s Shape) uint64 { return newPicker(v, s).newestValues() }

func (p *picker) newestValues() uint64 {
	newest := uint64(0)
	for _, t := range p.v.Levels[0] {
		if p.stuck0[t] {
			continue
		}
		for _, ref := range t.Values {
			newest += ref.Bytes
		}
	}
	return newest
}

// pickIdle empties level 0, unless the little that is there would have to
// rewrite much. Several such runs become one.
func (p *picker) pickIdle() (Plan, bool) {
	if len(p.runs) == 0 {
		return Plan{}, false
	}
	return p.pickLevel0(ReasonIdle)
}
