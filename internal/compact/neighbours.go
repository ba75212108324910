package compact

import (
	"math"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Where keys only grow, what is flushed meets nothing: its tables sink as they are,
// and nothing that comes later would ever merge them. A flush of little, in a pause
// or for a checkpoint, makes small ones. Each costs a mapping and a look of every
// change of the version, for as long as its keys live. So small tables that lie side
// by side in a level are merged, if their keys came in this order with time, or in the
// opposite one. Between others new keys may come, which would have all that was merged
// over their place written anew. See decision 0023.
const (
	// smallPart is the part of a full table below which one is small. It is less than
	// where a merge cuts what it writes, at half of a full one at least: the same tables
	// are not merged for ever, even if they turn out smaller than was estimated.
	smallPart = 4
	// neighbourGrowth is how many times as large as the largest of its inputs what is
	// merged must be together. So each byte is written anew seldom: from a 64th of
	// a full table on once, from four kilobytes on three times. neighbourGrowthAsked is
	// the same when somebody asks.
	neighbourGrowth      = 16
	neighbourGrowthAsked = 4
	// neighboursBusy is how many small tables lie side by side when they are merged
	// although it is not idle.
	neighboursBusy = 64
)

// neighbours says which small tables are to be merged.
type neighbours struct {
	growth int64 // see neighbourGrowth
	least  int   // so many at least
	keys   keyRange
	next   base.FileNum // bounds their numbers, as in Range
}

// pickNeighbours merges small tables of the levels below level 0 that lie side by side.
func (p *picker) pickNeighbours() (Plan, bool) {
	n := neighbours{growth: neighbourGrowth, least: neighboursBusy, next: math.MaxUint64}
	if p.s.Idle {
		n.least = neighbourGrowth
	}
	for level := last; level > 0; level-- {
		if tables := p.neighboursIn(level, n); tables != nil {
			return p.besides(level, tables, ReasonNeighbours), true
		}
	}
	return Plan{}, false
}

// besides returns the plan that merges tables of a level with each other.
func (p *picker) besides(level int, tables []*manifest.Table, why Reason) Plan {
	plan := Plan{Reason: why, OutputLevel: level}
	plan.Inputs[level] = tables
	plan = plan.finish(p.v, p.s)
	invariant.Check(plan.Bottom, "there is nothing below neighbours that are merged: %s", plan.String())
	return plan
}

// neighboursIn returns small tables of a level that are worth merging, or nil: the
// largest of them first, which takes those beside them along.
func (p *picker) neighboursIn(level int, n neighbours) []*manifest.Table {
	tables := within(p.v.Levels[level], n.keys)
	for small := p.s.TableSize / smallPart; small > 0 && len(tables) >= n.least; small /= 2 {
		some := false
		for from := 0; from < len(tables); {
			to := p.sideBySide(tables, from, level, small, n)
			if worth(tables[from:to], n) {
				return slices.Clip(tables[from:to])
			}
			some = some || to > from
			from = max(to, from+1)
		}
		if !some {
			break // none is as small, and so none is smaller
		}
	}
	return nil
}

// sideBySide returns the end of the tables, from the one given on, that are smaller than
// so many bytes, that came in order and that have nothing below them, not between them
// either: it would be rewritten with what lies over it alone so far. They are as many
// as make a plan.
func (p *picker) sideBySide(tables []*manifest.Table, from, level int, small int64, n neighbours) (to int) {
	most := p.surelyMax()
	sum, up, down := int64(0), true, true
	for to = from; to < len(tables); to++ {
		t := tables[to]
		if t.Size >= small || t.Num >= n.next || p.damaged(t) {
			break
		}
		if to > from {
			before := tables[to-1]
			up, down = up && before.LargestSeq <= t.SmallestSeq, down && before.SmallestSeq >= t.LargestSeq
		}
		if !up && !down {
			break
		}
		if sum += t.Size; sum > most || level < last && !nothingBelow(p.v, level, hull(tables[max(from, to-1):to+1])) {
			break
		}
	}
	return to
}

// worth reports whether tables become large enough by being merged.
func worth(tables []*manifest.Table, n neighbours) bool {
	largest := int64(0)
	for _, t := range tables {
		largest = max(largest, t.Size)
	}
	return len(tables) >= n.least && bytesOf(tables) >= n.growth*largest
}
