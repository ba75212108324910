package compact

import (
	"slices"

	"github.com/stoatdb/stoat/internal/manifest"
)

// Hidden entries take space until a merge has brought them together with their
// tombstones. In an idle database that happens soon. While commits run, level 0 is merged
// by the size of its data, and tombstones are small. So level 0 is also merged for what
// its tombstones hide below. Short values that replace long ones hide them as well. The
// flusher measured what a table hides, see Shape.Hides. Without that, only tombstones count.

const (
	// hiddenMin is the minimum number of hidden bytes. The minimum is 1/64 of the
	// limit of level 0 if that is less.
	hiddenMin = 1 << 20
	// hiddenPart is a divisor: 1/hiddenPart of all tables and values must be hidden.
	hiddenPart = 16
	// hiddenCost is the maximum number of bytes to rewrite per hidden byte: tombstones
	// scattered among short values would rewrite everything for little.
	hiddenCost = 2

	// The number of keys that a range tombstone hides is unknown. It counts as if it
	// hid everything that its table overlaps, but only after rangeWaitMs milliseconds
	// plus the time to rewrite the slice at rangeRate. That bounds the work for many
	// range tombstones that hide little. It does not wait while space is scarce.
	rangeWaitMs = 10_000
	rangeRate   = 16 << 10 // bytes per millisecond
)

// pickDeletions compacts the slice of level 0 whose tombstones hide the most bytes per
// rewritten byte. It does so if all worthwhile slices together hide enough, or if a
// tombstone has reached the maximum age.
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

// hidesMore reports whether slice a should be chosen before b. The gains are the hidden
// bytes per rewritten byte.
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

// deletesInLevel0 reports whether level 0 has tombstones, or is known to hide anything.
func (p *picker) deletesInLevel0() bool {
	for _, t := range p.v.Levels[0] {
		if t.Deletions+t.RangeDeletions > 0 || p.hides(t) > 0 {
			return true
		}
	}
	return false
}

// hiddenEnough returns how many bytes the tombstones of level 0 must hide.
func (p *picker) hiddenEnough() int64 {
	return max(min(hiddenMin, p.s.BaseSizeMin/64), p.v.LiveBytes()/hiddenPart)
}

// hides returns how many bytes t of level 0 is known to hide from all readers.
func (p *picker) hides(t *manifest.Table) int64 {
	if t.LargestSeq > p.s.OldestSnapshot {
		return 0
	}
	return p.s.Hides[t.Num]
}

// hiddenBy estimates how many bytes of tables and values a slice hides, in itself and in the
// levels below. aged says that one of its tombstones has reached the maximum age and must go
// at any cost. Tombstones that a snapshot does not see free nothing yet.
func (p *picker) hiddenBy(c *slice) (hidden int64, aged bool) {
	var deletions uint64
	var known int64
	ranges := false
	waited := rangeWaitMs + uint64(c.bytes()/rangeRate)
	for _, t := range c.tables {
		known += p.hides(t)
		if t.Deletions+t.RangeDeletions == 0 {
			continue
		}
		aged = aged || p.s.old(t)
		if t.LargestSeq <= p.s.OldestSnapshot {
			deletions += t.Deletions
			ranges = ranges || t.RangeDeletions > 0 && (p.s.Scarce || p.s.age(t) >= waited)
		}
	}
	if deletions == 0 && !ranges {
		return known, aged
	}
	below := slices.Clone(c.tables)
	r := hull(c.tables)
	for level := p.base; level <= last; level++ {
		below = append(below, within(p.v.Levels[level], r)...)
	}
	if ranges {
		return int64(bytesWith(below)), aged
	}
	return max(known, int64(freed(deletions, below))), aged
}
