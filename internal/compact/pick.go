package compact

import "github.com/stoatdb/stoat/internal/manifest"

// A picker holds the input and the intermediate results of one Pick.
type picker struct {
	v      *manifest.Version
	s      Shape
	runs   [][]*manifest.Table // of level 0, newest first
	target targets
	base   int
	whole  *picker // with the tables that stay because of damage
}

func newPicker(v *manifest.Version, s Shape) *picker {
	p := &picker{v: v, s: s.withDefaults(), runs: runsOf(v)}
	p.s.shield(v)
	p.target = targetsOf(v, p.s)
	p.base = baseOf(v, p.target)
	p.whole = p
	return p.withoutStuck()
}

// newManualPicker returns a picker whose plans may read damaged tables. But they take none
// along for a seam: it may lie beside the range of the job.
func newManualPicker(v *manifest.Version, s Shape) *picker {
	damaged := s.Damaged
	s.Damaged = nil
	p := newPicker(v, s)
	p.s.Damaged = damaged
	return p
}

// Pick returns the most useful plan for v, or false if nothing is due. It does no I/O and
// takes no lock: same version in, same plan out.
//
// Free plans come first, then the level or value total that exceeds its limit most, then
// garbage. Plans that only make reading faster come next, if the database is idle. Plans
// that only reduce the number of files come last.
func Pick(v *manifest.Version, s Shape) (Plan, bool) {
	p := newPicker(v, s)
	if plan, ok := p.pickNeeded(); ok {
		return plan, true
	}
	if plan, ok := p.pickNeighbours(); ok {
		return plan, true
	}
	return p.pickJoin(joinFiles, automaticJoining)
}

// PickNeeded is Pick without the plans that only reduce the number of files.
func PickNeeded(v *manifest.Version, s Shape) (Plan, bool) { return newPicker(v, s).pickNeeded() }

func (p *picker) pickNeeded() (Plan, bool) {
	if plan, ok := p.whole.pickDead(); ok {
		return plan, true
	}
	if plan, ok := p.whole.pickMove(); ok {
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
		return p.pickIdle()
	}
	return Plan{}, false
}

// pickSize merges small runs of level 0, or it compacts level 0 or a level below it,
// whichever exceeds its limit most.
func (p *picker) pickSize() (Plan, bool) {
	if plan, ok := p.mergeSmallRuns(); ok {
		return plan, true
	}
	t, level, score := p.worstLevel()
	runs := max(float64(p.depth()), float64(len(p.runs))/besideMax) / float64(p.runsMax())
	tables := float64(len(p.v.Levels[0])) / float64(p.tablesMax())
	level0 := float64(p.v.Bytes(0)) / float64(p.target.bytes[0])
	values := p.valueScore()
	if most := max(runs, tables, level0, values); most >= 1 && most >= score {
		why := ReasonLevel0
		switch {
		case values > max(runs, tables, level0):
			why = ReasonValues
		case tables > max(runs, level0):
			why = ReasonTables
		case runs >= level0:
			why = ReasonRuns
		}
		if plan, ok := p.pickLevel0(why); ok {
			return plan, true
		} // there is no room for any of it
	}
	if score < 1 {
		return p.mergeStuck()
	}
	return p.down(t, level, ReasonLevel), true
}

// valueScore returns the ratio of the values that level 0 refers to, to their bound.
func (p *picker) valueScore() float64 {
	newest := p.newestValues()
	if newest == 0 {
		return 0
	}
	part := p.s.Slack * float64(p.v.ValueFileBytes) / valuesPart
	refers := float64(newest) / max(float64(p.s.ValuesMin), part)
	hides := p.s.Replacing * float64(newest) / max(float64(p.s.ValuesMin/8), part)
	return max(refers, hides)
}

// valuesPart is a divisor: level 0 may refer to 1/valuesPart of all values, times the slack.
// A smaller fraction finds garbage sooner and merges more often.
const valuesPart = 16

// NewestValues returns how many bytes of values level 0 refers to. How much garbage these
// values have made below is unknown until compaction. Tables stuck over damage do not
// count: waiting for them would find nothing.
func NewestValues(v *manifest.Version, s Shape) uint64 { return newPicker(v, s).newestValues() }

func (p *picker) newestValues() uint64 {
	newest := uint64(0)
	for _, t := range p.v.Levels[0] {
		newest += t.Referred()
	}
	return newest
}

// pickIdle empties level 0, unless little data would rewrite much of the base. Then it
// merges several runs into one.
func (p *picker) pickIdle() (Plan, bool) {
	if len(p.runs) == 0 {
		return Plan{}, false
	}
	return p.pickLevel0(ReasonIdle)
}
