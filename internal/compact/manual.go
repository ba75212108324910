package compact

import "github.com/stoatdb/stoat/internal/manifest"

// PickRange returns the next step of bringing all keys from lo, inclusive, to
// hi, exclusive, to the last level, without their garbage; nil bounds are
// none. It is asked again after each step until it returns false.
func PickRange(v *manifest.Version, s Shape, lo, hi []byte) (Plan, bool) {
	p := newPicker(v, s)
	r := keyRange{lo: lo, hi: hi, open: true}
	if plan, ok := p.pickDead(); ok {
		return plan, true
	}
	for i, run := range p.runs {
		if tables := within(run, r); len(tables) > 0 {
			c := p.sliceIn(p.gapOver(i, tables[0]))
			return p.planOf(&c, ReasonManual), true
		}
	}
	for level := 1; level < last; level++ {
		if tables := within(v.Levels[level], r); len(tables) > 0 {
			return p.down(tables[0], level, ReasonManual), true
		}
	}
	for _, t := range within(v.Levels[last], r) {
		if p.s.removable(t) > 0 {
			return p.down(t, last, ReasonManual), true
		}
	}
	return Plan{}, false
}
