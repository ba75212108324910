package compact

import (
	"math"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Where keys only grow, flushed tables overlap nothing. They move down unchanged, and no
// later compaction would merge them. A small flush, in a pause or for a checkpoint, makes
// small tables. While its keys live, each costs a mapping and makes every change of the
// version slower. So adjacent small tables of a level are merged, if their sequence numbers
// ascend or descend with their keys. Between other tables new keys may arrive, and
// compacting those would rewrite the merged table. See decision 0023.
const (
	// smallPart is a divisor: a table is small below 1/smallPart of a full one. A merge
	// makes tables of at least half of a full one. So the same tables are not merged for
	// ever, even if they turn out smaller than estimated.
	smallPart = 4
	// neighbourGrowth is the minimum ratio of the total size to the largest input. It
	// limits how often a byte is rewritten: once from 1/64 of a full table on, three
	// times from 4 KiB on. neighbourGrowthManual is the ratio for a manual compaction.
	neighbourGrowth       = 16
	neighbourGrowthManual = 4
	// neighboursBusy is the minimum number of adjacent small tables to merge while the
	// database is not idle.
	neighboursBusy = 64
)

// neighbours says which small tables to merge.
type neighbours struct {
	growth int64 // see neighbourGrowth
	least  int   // minimum number of tables
	keys   keyRange
	next   base.FileNum // bounds their numbers, as in Range
}

// pickNeighbours merges adjacent small tables of the levels below level 0.
func (p *picker) pickNeighbours() (Plan, bool) {
	n := neighbours{growth: neighbourGrowth, least: neighboursBusy, next: math.MaxUint64}
	if p.s.Idle {
		n.least = neighbourGrowth
	}
	for level := last; level > 0; level-- {
		if tables := p.neighboursIn(level, n); tables != nil {
			return p.mergeNeighbours(level, tables, ReasonNeighbours), true
		}
	}
	return Plan{}, false
}

// mergeNeighbours returns the plan that merges adjacent tables of a level. Where keyspaces
// are small, outputs could end between any two of them. Then they would be small themselves,
// and would be merged again and again.
func (p *picker) mergeNeighbours(level int, tables []*manifest.Table, why Reason) Plan {
	plan := Plan{Reason: why, OutputLevel: level, SplitMin: p.s.TableSize / 2}
	plan.Inputs[level] = tables
	plan = plan.finish(p.v, p.s)
	invariant.Check(plan.Bottom, "tables lie below merged neighbours: %s", plan.String())
	return plan
}

// neighboursIn returns adjacent small tables of a level that are worth merging, or nil. It
// starts with the largest small tables, which take smaller neighbours along.
func (p *picker) neighboursIn(level int, n neighbours) []*manifest.Table {
	tables := within(p.v.Levels[level], n.keys)
	for small := p.s.TableSize / smallPart; small > 0 && len(tables) >= n.least; small /= 2 {
		some := false
		for from := 0; from < len(tables); {
			to := p.endOfSmall(tables, from, level, small, n)
			if worth(tables[from:to], n) {
				return slices.Clip(tables[from:to])
			}
			some = some || to > from
			from = max(to, from+1)
		}
		if !some {
			break // no table is this small, so none is smaller
		}
	}
	return nil
}

// endOfSmall returns the end of the tables, starting with from, that are smaller than small
// bytes and whose sequence numbers are in order. Nothing may be below them or between them
// in lower levels: the merged table would rewrite it. It stops at the size of one plan.
func (p *picker) endOfSmall(tables []*manifest.Table, from, level int, small int64, n neighbours) (to int) {
	most := p.s.surelyMax()
	sum, up, down := int64(0), true, true
	for to = from; to < len(tables); to++ {
		t := tables[to]
		if t.Size >= small || t.Num >= n.next {
			break
		}
		if to > from {
			before := tables[to-1]
			up, down = up && before.LargestSeq <= t.SmallestSeq, down && before.SmallestSeq >= t.LargestSeq
		}
		if !up && !down {
			break
		}
		between := hull(tables[max(from, to-1) : to+1])
		if sum += t.Size; sum > most || level < last && !nothingBelow(p.v, level, between) || len(p.s.stuckIn(between)) > 0 {
			break
		}
	}
	return to
}

// worth reports whether merging the tables makes a large enough table.
func worth(tables []*manifest.Table, n neighbours) bool {
	largest := int64(0)
	for _, t := range tables {
		largest = max(largest, t.Size)
	}
	return len(tables) >= n.least && bytesOf(tables) >= n.growth*largest
}
