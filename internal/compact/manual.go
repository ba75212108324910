package compact

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
)

// A Range is the range that PickRange brings to the last level. UpTo and Next bound the
// work, so that it ends while other commits write.
type Range struct {
	// Lo, inclusive, and Hi, exclusive, bound the keys; nil means no bound.
	Lo, Hi []byte
	// UpTo is the newest sequence number to bring there. A table with only newer
	// versions stays where it is.
	UpTo base.SeqNum
	// Next bounds the numbers of the tables of the last level to rewrite there. Tables from
	// Next on are new and stay.
	Next base.FileNum
	// Screened reports whether a table may have values that a compaction filter decides
	// about. PickRange rewrites such tables of the last level. nil: no table has any.
	Screened func(t *manifest.Table) bool
}

// takes reports whether t, of a level above the last, should go down.
func (r *Range) takes(t *manifest.Table) bool { return t.SmallestSeq <= r.UpTo }

// rewrites reports whether t, of the last level, is rewritten there.
func (r *Range) rewrites(t *manifest.Table, s Shape) bool {
	return t.Num < r.Next && (s.shrinksOnce(t) || r.Screened != nil && r.Screened(t))
}

func (r *Range) keys() keyRange { return keyRange{lo: r.Lo, hi: r.Hi, open: true} }

// PickRange returns the next step of bringing a range to the last level, without garbage
// and in few small tables. The caller repeats it after each step until it returns false.
// Damaged tables are not excluded: the caller must learn of them.
func PickRange(v *manifest.Version, s Shape, r Range) (Plan, bool) {
	p, keys := newManualPicker(v, s), r.keys()
	if plan, ok := p.pickDead(); ok && slices.ContainsFunc(plan.Tables(), r.takes) {
		return plan, true
	}
	for i, run := range p.runs {
		// Older tables in the way must go down, too.
		if t := r.first(within(run, keys)); t != nil {
			g, below := p.gapOver(i, t)
			if plan, ok := p.cut(i, below, &r); ok {
				return plan, true
			}
			c := p.sliceIn(g, below, p.s.InputMax)
			return p.planOf(&c, ReasonManual), true
		}
	}
	for level := 1; level < last; level++ {
		if t := r.first(within(v.Levels[level], keys)); t != nil {
			return p.down(t, level, ReasonManual), true
		}
	}
	for _, t := range within(v.Levels[last], keys) {
		if r.rewrites(t, p.s) {
			return p.down(t, last, ReasonManual), true
		}
	}
	n := neighbours{growth: neighbourGrowthManual, least: neighbourGrowthManual, keys: keys, next: r.Next}
	if tables := p.neighboursIn(last, n); tables != nil {
		return p.mergeNeighbours(last, tables, ReasonManual), true
	}
	return Plan{}, false
}

// cut returns the plan that cuts a table of level 0 at the bounds of a range. The table is of
// the i-th run, or of an older one. Otherwise a range of a few keys could take below along,
// which may be the whole base: a small flush makes one table over all keys. cut returns
// false if no table reaches out of the range, or if cutting would not save much.
func (p *picker) cut(i int, below []*manifest.Table, r *Range) (Plan, bool) {
	var wide []*manifest.Table
	keys := r.keys()
	for older, run := range p.runs[i:] {
		for _, t := range within(run, keys) {
			if !keys.contains(t) && (older > 0 || r.takes(t)) {
				wide = append(wide, t)
			}
		}
	}
	if len(wide) == 0 || !p.s.cuts(wide, below, keys) {
		return Plan{}, false
	}
	plan := Plan{Reason: ReasonManual, Run: wide[0].Run, Cuts: true, around: true}
	plan.Inputs[0] = wide[:1]
	for _, bound := range [][]byte{keys.lo, keys.hi} {
		if bound != nil {
			plan.Splits = append(plan.Splits, bound)
		}
	}
	plan = plan.finish(p.v, p.s)
	plan.Bottom = plan.Bottom && mutant.On(mutant.CutAtBottom) // an older run may have older versions
	return plan, true
}

// cuts reports whether wide tables of level 0, which reach out of keys, are cut. Otherwise a
// slice would take along much of the base beside keys.
func (s *Shape) cuts(wide, below []*manifest.Table, keys keyRange) bool {
	beside := bytesOf(below) - bytesOf(within(below, keys))
	return s.CutFrom < 0 || beside > max(int64(s.CutFrom)*s.TableSize, bytesOf(wide))
}

// Ahead estimates how many bytes of tables all steps of PickRange read together. It counts
// tables that go down, tables that they overlap there, and tables that are rewritten in the
// last level. Below a table that is cut, it counts only tables of the range.
func (r *Range) Ahead(v *manifest.Version, s Shape) (bytes int64) {
	s = s.withDefaults()
	s.shield(v)
	keys, met := r.keys(), map[base.FileNum]bool{}
	for level := range last {
		for _, t := range v.Overlapping(level, r.Lo, r.Hi, true) {
			if !r.takes(t) {
				continue
			}
			bytes += t.Size
			below := within(v.Levels[last], rangeOf(t))
			if level == 0 && !keys.contains(t) && s.cuts([]*manifest.Table{t}, below, keys) {
				below = within(below, keys)
			}
			for _, u := range below {
				met[u.Num] = true
			}
		}
	}
	for _, t := range v.Levels[last] {
		if met[t.Num] {
			bytes += t.Size
		}
	}
	for _, t := range v.Overlapping(last, r.Lo, r.Hi, true) {
		if !met[t.Num] && r.rewrites(t, s) {
			bytes += t.Size
		}
	}
	return bytes
}

// first returns the first table that should go down, or nil.
func (r *Range) first(tables []*manifest.Table) *manifest.Table {
	if i := slices.IndexFunc(tables, r.takes); i >= 0 {
		return tables[i]
	}
	return nil
}
