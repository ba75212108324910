package compact

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// A Range is what PickRange brings to the last level. Without bounds in time it
// would have no end while others write.
type Range struct {
	// Lo, inclusive, and Hi, exclusive, bound the keys; nil is no bound.
	Lo, Hi []byte
	// UpTo is the newest version that is to get there. A table that has only
	// newer ones stays where it is.
	UpTo base.SeqNum
	// Next bounds the numbers of tables of the last level that are rewritten for
	// their garbage, or because they are small: those from it on have been.
	Next base.FileNum
}

// Takes reports whether the table, of a level above the last, is to go down.
func (r *Range) Takes(t *manifest.Table) bool { return t.SmallestSeq <= r.UpTo }

// PickRange returns the next step of bringing a range to the last level,
// without its garbage and in no more small tables than need be. It is asked again after each step until it returns false.
// Damaged tables are no exception: who asked for all is to learn of them.
func PickRange(v *manifest.Version, s Shape, r Range) (Plan, bool) {
	s.Damaged = nil
	p := newPicker(v, s)
	keys := keyRange{lo: r.Lo, hi: r.Hi, open: true}
	if plan, ok := p.pickDead(); ok && slices.ContainsFunc(plan.all(), r.Takes) {
		return plan, true
	}
	for i, run := range p.runs {
		// What is older than the table in its way is to go down as well.
		if t := r.first(within(run, keys)); t != nil {
			g, below, _ := p.gapOver(i, t)
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
		if t.Num < r.Next && p.s.removable(t) > 0 {
			return p.down(t, last, ReasonManual), true
		}
	}
	n := neighbours{growth: neighbourGrowthAsked, least: neighbourGrowthAsked, keys: keys, next: r.Next}
	if tables := p.neighboursIn(last, n); tables != nil {
		return p.besides(last, tables, ReasonManual), true
	}
	return Plan{}, false
}

// Ahead estimates how many bytes of tables all steps of PickRange together go
// through: those that go down, those that they meet there, and those of the last
// level that hold what can go.
func (r *Range) Ahead(v *manifest.Version, s Shape) (bytes int64) {
	met := map[base.FileNum]bool{}
	for level := range last {
		for _, t := range v.Overlapping(level, r.Lo, r.Hi, true) {
			if !r.Takes(t) {
				continue
			}
			bytes += t.Size
			for _, below := range v.Overlapping(last, t.Smallest, t.Largest, t.LargestExclusive) {
				met[below.Num] = true
			}
		}
	}
	for _, t := range v.Levels[last] {
		if met[t.Num] {
			bytes += t.Size
		}
	}
	for _, t := range v.Overlapping(last, r.Lo, r.Hi, true) {
		if !met[t.Num] && t.Num < r.Next && s.removable(t) > 0 {
			bytes += t.Size
		}
	}
	return bytes
}

// first returns the first of the tables that is to go down, or nil.
func (r *Range) first(tables []*manifest.Table) *manifest.Table {
	if i := slices.IndexFunc(tables, r.Takes); i >= 0 {
		return tables[i]
	}
	return nil
}
