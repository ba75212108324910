package compact

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
)

// The maximum number of bytes of the base to rewrite per byte of level 0. Beyond it,
// merging the runs of level 0 with each other is better. A small base is rewritten sooner,
// for the sake of readers.
const (
	poorRatio     = 32
	poorRatioWide = 8
)

// smallRunsMax is the number of small runs of a wide level 0 that may hold one key, if
// RunsMax is not lower.
const smallRunsMax = 8

const (
	// level0Tables is the number of tables that level 0 may have in any case. A larger level 0
	// may have twice as many as flushes make of its bytes. Drops of a few keys cut tables, and
	// each table costs a mapping and makes every change of the version slower.
	level0Tables = 4096
	// besideMax is how many times as many runs level 0 may have as may hold one key. A get
	// asks the filter of each run, and an iterator positions itself in each.
	besideMax = 8
)

// A slice is a set of tables of level 0 that can go to the base together. It also has the
// tables of the base that they overlap. For each of its tables it contains everything older
// that overlaps it.
type slice struct {
	tables             []*manifest.Table // of level 0, oldest run first
	base               []*manifest.Table
	bytes0, bytesBelow int64
	// won is bytes0 plus the bytes that the tombstones of the slice free below.
	won  float64
	runs int
}

func (c *slice) bytes() int64   { return c.bytes0 + c.bytesBelow }
func (c *slice) yield() float64 { return c.won / float64(c.bytes()) }

// wide reports whether level 0 holds, or may hold, clearly more than BaseSizeMin. Then
// small runs are merged with each other before they are merged into the base.
func (p *picker) wide() bool {
	return max(p.target.bytes[0], p.v.Bytes(0)/2) > p.s.BaseSizeMin
}

func (p *picker) poorRatio() float64 {
	if p.wide() {
		return poorRatioWide
	}
	return poorRatio
}

// entriesPart is a divisor: a slice is not poor if level 0 has 1/entriesPart of the entries
// that the base has there. Short values may have replaced long ones.
const entriesPart = 8

// manyRatio is by how much more such a slice may cost. While space is scarce, a slice with
// tombstones may cost scarceRatio bytes for each of its own, or scarceBytes in all.
const (
	manyRatio   = 4
	scarceRatio = 512
	scarceBytes = 64 << 20
)

// poor reports whether a slice is too small to be merged in an idle database. While space is
// scarce, tombstones that no snapshot needs are worth more.
func (p *picker) poor(c *slice) bool {
	cost, ratio := float64(c.bytesBelow)/c.won, p.poorRatio()
	switch {
	case cost <= ratio:
		return false
	case cost <= manyRatio*ratio && entriesPart*entriesIn(c.tables) >= entriesIn(c.base):
		return false
	}
	may := cost <= scarceRatio || c.bytesBelow <= scarceBytes
	return !(p.s.Scarce && may && slices.ContainsFunc(c.tables, p.frees))
}

// frees reports whether t has tombstones that may free something now.
func (p *picker) frees(t *manifest.Table) bool {
	return t.Deletions+t.RangeDeletions > 0 && t.LargestSeq <= p.s.OldestSnapshot
}

func entriesIn(tables []*manifest.Table) (entries uint64) {
	for _, t := range tables {
		entries += t.Entries
	}
	return entries
}

// runsMax returns the number of runs that may hold one key.
func (p *picker) runsMax() int {
	if p.wide() {
		return 2 * p.s.RunsMax
	}
	return p.s.RunsMax
}

// tablesMax returns the number of tables that level 0 may have.
func (p *picker) tablesMax() int64 {
	return max(level0Tables, 2*p.target.bytes[0]/flushPieceMin)
}

// depth returns the largest number of runs that may hold one key.
func (p *picker) depth() int { return depthOf(p.runs) }

func depthOf(runs [][]*manifest.Table) int {
	deepest := 0
	for i, run := range runs {
		for _, t := range run {
			// The deepest place starts where a table starts.
			at := keyRange{lo: t.Smallest, hi: t.Smallest}
			n := 1
			for j, other := range runs {
				if j != i {
					n += len(within(other, at))
				}
			}
			deepest = max(deepest, n)
		}
	}
	return deepest
}

// gapOver returns the gap in the base around t, of the i-th run, and around everything
// older that must go before t. It also returns the tables of the base there.
func (p *picker) gapOver(i int, t *manifest.Table) (gap, []*manifest.Table) {
	r := rangeOf(t)
	for _, run := range p.runs[i+1:] {
		for _, u := range within(run, r) {
			r = r.with(u)
		}
	}
	return gapAround(p.v.Levels[p.base], r)
}

// sliceIn returns the slice in a gap. From the oldest run to the newest, it takes tables in
// the gap, up to about most bytes. A table that reaches out of the gap stays, and ends the
// gap for all newer runs. If the base part alone exceeds most, as many bytes of level 0 go
// with it. Otherwise the base would be rewritten for each table, and tombstones that shrink
// it would stay.
func (p *picker) sliceIn(g gap, below []*manifest.Table, most int64) slice {
	c := slice{base: below, bytesBelow: bytesOf(below)}
	for i := len(p.runs) - 1; i >= 0; i-- {
		before := len(c.tables)
		for _, t := range g.meeting(p.runs[i]) {
			left, right := g.reachesOutLeft(t), g.reachesOutRight(t)
			switch {
			case left || right:
			case len(c.tables) == 0 || c.bytes()+t.Size <= most,
				c.bytesBelow > most && c.bytes0+t.Size <= c.bytesBelow:
				c.tables = append(c.tables, t)
				c.bytes0 += t.Size
				c.won += p.gainOf(t)
				continue
			default:
				right = true // the job is full
			}
			if left {
				g.left = t
			}
			if right {
				g.right = t
				break
			}
		}
		if len(c.tables) > before {
			c.runs++
		}
	}
	return c
}

// gainOf returns the value, in bytes, of moving t of level 0 to the base: its own bytes and
// those that it frees. A range tombstone counts as freeing everything it overlaps, and so
// does a tombstone at the maximum age, which must go at any cost. Partial entries free what
// has expired below: while they are above it, it stays.
func (p *picker) gainOf(t *manifest.Table) float64 {
	known := float64(p.hides(t))
	if t.Deletions+t.RangeDeletions+t.Partials == 0 {
		return float64(t.Size) + known
	}
	below := within(p.v.Levels[p.base], rangeOf(t))
	if t.RangeDeletions > 0 || t.Deletions > 0 && p.s.old(t) {
		return float64(t.Size) + max(known, float64(bytesOf(below)))
	}
	gain := float64(t.Size) + max(known, freed(t.Deletions, below))
	for _, u := range below {
		if n := p.s.past(u); t.Partials > 0 && n > 0 {
			gain += bytesWith([]*manifest.Table{u}) * float64(n) / float64(u.Entries)
		}
	}
	return gain
}

// slices returns the slices over all gaps of the base that tables of level 0 need, if
// there is room for them.
func (p *picker) slices() []slice {
	var all []slice
	seen := map[gap]bool{}
	for i, run := range p.runs {
		for _, t := range run {
			g, below := p.gapOver(i, t)
			if seen[g] {
				continue
			}
			seen[g] = true
			c := p.sliceIn(g, below, p.s.InputMax)
			if p.tooLarge(&c) {
				// With all tombstones above it, the output may be small.
				c = p.sliceIn(g, below, math.MaxInt64)
			}
			if len(c.tables) > 0 && !p.tooLarge(&c) {
				all = append(all, c)
			}
		}
	}
	return all
}

// pickLevel0 chooses a slice within the bounds of a job. It prefers the deepest one, the one
// with the most tables, or the one with the best yield.
func (p *picker) pickLevel0(why Reason) (Plan, bool) {
	all := p.slices()
	if len(all) == 0 {
		// Damage keeps all tables where they are, or no slice fits in the room.
		return p.mergeRuns(why)
	}
	var best *slice
	for i := range all {
		c := &all[i]
		if why == ReasonIdle && p.poor(c) {
			continue
		}
		if best == nil || p.better(c, best, why) {
			best = c
		}
	}
	switch {
	case best == nil:
		return p.mergeRuns(why)
	case why == ReasonRuns && p.poorRatio()*float64(p.v.Bytes(0)) < float64(p.v.Bytes(p.base)):
		if plan, ok := p.mergeRuns(why); ok {
			return plan, true
		}
	}
	return p.planOf(best, why), true
}

// better reports whether slice a should be chosen before b.
func (p *picker) better(a, b *slice, why Reason) bool {
	fitsA, fitsB := a.bytes() <= p.s.InputMax, b.bytes() <= p.s.InputMax
	switch {
	case fitsA != fitsB:
		return fitsA
	case !fitsA:
		return a.bytes() < b.bytes()
	case why == ReasonRuns && a.runs != b.runs:
		return a.runs > b.runs
	case why == ReasonTables && len(a.tables) != len(b.tables):
		return len(a.tables) > len(b.tables)
	}
	return a.yield() > b.yield()
}

// tooLarge reports whether there is no room for the output of merging slice c.
func (p *picker) tooLarge(c *slice) bool {
	return len(c.tables) > 0 && p.noRoom(c.bytes(), func() Plan { return p.planOf(c, ReasonLevel0) })
}

// noRoom reports whether there is no room for the output of a plan with inputs of that
// many bytes.
func (p *picker) noRoom(bytes int64, planned func() Plan) bool {
	if p.s.OutputMax == 0 || bytes <= p.s.OutputMax {
		return false
	}
	plan := planned()
	return !plan.Move && (plan.OutputBytes() > p.s.OutputMax || p.s.Useless != nil && p.s.Useless(&plan))
}

// surelyMax returns the maximum size in bytes of the inputs of a job that could also be
// smaller. It is at most the room that is surely there.
func (s *Shape) surelyMax() int64 {
	if s.OutputMax == 0 {
		return s.InputMax
	}
	return min(s.InputMax, s.OutputMax)
}

// planOf returns the plan that takes slice c to the base.
func (p *picker) planOf(c *slice, why Reason) Plan {
	invariant.Check(len(c.tables) > 0, "a slice of %d runs without a table of level 0", c.runs)
	plan := Plan{Reason: why, OutputLevel: p.base}
	plan.Inputs[0] = newestFirst(slices.Clone(c.tables))
	plan.Inputs[p.base] = c.base
	return plan.finish(p.v, p.s)
}

// mergeSmallRuns merges the small runs of a wide level 0 into one run of up to BaseSizeMin
// bytes when they have become many.
func (p *picker) mergeSmallRuns() (Plan, bool) {
	p = p.whole // newer tables over a damaged one may be merged with each other
	if !p.wide() {
		return Plan{}, false
	}
	many := max(2, min(smallRunsMax, p.s.RunsMax))
	n, bytes := p.newestRuns(min(p.s.surelyMax(), p.s.BaseSizeMin))
	if n < many || depthOf(p.runs[:n]) < many {
		return Plan{}, false
	}
	return p.mergeNewest(n, bytes, ReasonRuns), true
}

// mergeRuns merges the newest runs, which are too small to be worth rewriting the base,
// into one run.
func (p *picker) mergeRuns(why Reason) (Plan, bool) {
	p = p.whole // newer tables over a damaged one may be merged with each other
	n, bytes := p.newestRuns(p.s.surelyMax())
	if n < 2 {
		return Plan{}, false
	}
	return p.mergeNewest(n, bytes, why), true
}

// newestRuns returns how many of the newest runs should be merged together, and their size
// in bytes, at most most. They end before a run that is much larger than the newer ones
// together, so that small flushes do not rewrite it again and again. They end before a
// damaged table, too.
func (p *picker) newestRuns(most int64) (n int, bytes int64) {
	for ; n < len(p.runs); n++ {
		size := bytesOf(p.runs[n])
		if n > 0 && (size > 4*bytes || bytes+size > most) || slices.ContainsFunc(p.runs[n], func(t *manifest.Table) bool { return p.s.Damaged[t.Num] }) {
			break
		}
		bytes += size
	}
	return n, bytes
}

// mergeNewest merges the n newest runs, which have that many bytes.
func (p *picker) mergeNewest(n int, bytes int64, why Reason) Plan {
	plan := Plan{Reason: why}
	plan.Inputs[0] = slices.Concat(p.runs[:n]...)
	plan.Run = p.runs[0][0].Run
	plan = plan.finish(p.v, p.s)
	cuts := CutsOfFlush(p.v, p.s, bytes)
	plan.Splits, plan.SplitMin = cuts.Splits, cuts.SplitMin
	plan.Bottom = plan.Bottom && n == len(p.runs)
	return plan
}

// pickMove finds tables of level 0 that overlap nothing older, neither there nor in the
// base. It moves as many as do not overlap each other, without rewriting them.
func (p *picker) pickMove() (Plan, bool) {
	plan := Plan{Reason: ReasonMove, OutputLevel: p.base}
	if p.s.Screens {
		return plan, false
	}
	for i := len(p.runs) - 1; i >= 0; i-- {
		for _, t := range p.runs[i] {
			if !p.nothingOlder(i, t) || len(within(p.v.Levels[p.base], rangeOf(t))) > 0 {
				continue
			}
			if p.s.shrinks(t, 0) && nothingBelow(p.v, p.base, rangeOf(t)) {
				continue
			}
			plan.Inputs[0] = append(plan.Inputs[0], t)
		}
	}
	if len(plan.Inputs[0]) == 0 {
		return Plan{}, false
	}
	newestFirst(plan.Inputs[0])
	plan = plan.finish(p.v, p.s)
	return plan, plan.Move
}

// newestFirst sorts tables of level 0 into the order of a version.
func newestFirst(tables []*manifest.Table) []*manifest.Table {
	slices.SortFunc(tables, func(a, b *manifest.Table) int {
		return cmp.Or(cmp.Compare(b.Run, a.Run), bytes.Compare(a.Smallest, b.Smallest))
	})
	return tables
}
