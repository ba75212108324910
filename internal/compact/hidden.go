package compact

import "slices"

// What deletions hide takes space until a merge has brought the two together.
// In an idle database that happens soon. While commits come, level 0 is merged
// for what it holds and refers to, and of deletions that is next to nothing:
// therefore level 0 is also merged for what its deletions hide below.

const (
	// hiddenMin is how many bytes must be hidden, or a sixty-fourth of what level
	// 0 may grow to if that is less.
	hiddenMin = 1 << 20
	// hiddenPart is the part of all tables and values that must be hidden.
	hiddenPart = 16
	// hiddenCost is how many bytes may be written for one that is hidden: deletions
	// that lie scattered among short values would rewrite everything for little.
	hiddenCost = 2

	// How many keys a range deletion hides is not known. So it counts as if it hid
	// all that its table meets, but only after rangeWaitMs, and the time in which
	// so much can be written at rangeRate: many that hide little make no more
	// work than that.
	rangeWaitMs = 10_000
	rangeRate   = 16 << 10 // bytes a millisecond
)

// pickDeletions takes the slice of level 0 to the base whose deletions hide the
// most for what that rewrites, if all slices worth it hide enough, or if a
// deletion has waited too long.
func (p *picker) pickDeletions() (Plan, bool) {
	if !p.deletesInLevel0() {
		return Plan{}, false
	}
	var best *slice
	var most float64
	var sum int64
	due := false
	all := p.slices()
	for i := range all {
		c := &all[i]
		hidden, aged := p.hiddenBy(c)
		if !aged && c.bytes() > hiddenCost*hidden {
			continue
		}
		sum += hidden
		due = due || aged
		if gain := float64(hidden) / float64(c.bytes()); best == nil || p.hidesMore(c, gain, best, most) {
			best, most = c, gain
		}
	}
	if best == nil || !due && sum < p.hiddenEnough() {
		return Plan{}, false
	}
	return p.planOf(best, ReasonDeletions), true
}

// hidesMore reports whether slice a is to be chosen before b, given what they
// hide for each byte that is rewritten.
func (p *picker) hidesMore(a *slice, gainA float64, b *slice, gainB float64) bool {
	fitsA, fitsB := a.bytes() <= p.s.InputMax, b.bytes() <= p.s.InputMax
	switch {
	case fitsA != fitsB:
		return fitsA
	case !fitsA:
		return a.bytes() < b.bytes()
	}
	return gainA > gainB
}

// deletesInLevel0 reports whether level 0 has deletions.
func (p *picker) deletesInLevel0() bool {
	for _, t := range p.v.Levels[0] {
		if t.Deletions+t.RangeDeletions > 0 {
			return true
		}
	}
	return false
}

// hiddenEnough returns how many bytes deletions of level 0 must hide.
func (p *picker) hiddenEnough() int64 {
	all := int64(0)
	for level := range p.v.Levels {
		all += p.v.Bytes(level)
	}
	for _, f := range p.v.Values {
		all += int64(f.Live)
	}
	return max(min(hiddenMin, p.s.BaseSizeMin/64), all/hiddenPart)
}

// hiddenBy estimates how many bytes of tables and values the deletions of a
// slice hide, in the slice and in the levels below, and reports whether one of
// them has waited so long that it must go at any price. Those that a snapshot does
// not see free nothing yet.
func (p *picker) hiddenBy(c *slice) (hidden int64, aged bool) {
	var deletions uint64
	ranges := false
	waited := rangeWaitMs + uint64(c.bytes()/rangeRate)
	for _, t := range c.tables {
		if t.Deletions+t.RangeDeletions == 0 {
			continue
		}
		aged = aged || p.s.old(t)
		if t.LargestSeq <= p.s.OldestSnapshot {
			deletions += t.Deletions
			ranges = ranges || t.RangeDeletions > 0 && p.s.NowMs >= t.CreatedMs+waited
		}
	}
	if deletions == 0 && !ranges {
		return 0, aged
	}
	below := slices.Clone(c.tables)
	r := hull(c.tables)
	for level := p.base; level <= last; level++ {
		below = append(below, within(p.v.Levels[level], r)...)
	}
	if ranges {
		return int64(bytesWith(below)), aged
	}
	return int64(freed(deletions, below)), aged
}
