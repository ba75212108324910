package compact

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
)

// A Reason is the reason for a plan.
type Reason uint8

// The reasons, the cheapest and most urgent first.
const (
	// ReasonDead: the tables show nothing and hide nothing.
	ReasonDead Reason = iota + 1
	// ReasonMove: the tables overlap nothing at their destination.
	ReasonMove
	// ReasonRuns: a read searches too many runs of level 0.
	ReasonRuns
	// ReasonTables: level 0 has too many tables.
	ReasonTables
	// ReasonLevel0: level 0 holds too many bytes.
	ReasonLevel0
	// ReasonValues: level 0 refers to so many values that much of what they replaced
	// may be garbage.
	ReasonValues
	// ReasonLevel: a level exceeds its target.
	ReasonLevel
	// ReasonExpired: much of a table has expired.
	ReasonExpired
	// ReasonDeletions: a table has many or old tombstones, or the tombstones of level 0
	// hide much.
	ReasonDeletions
	// ReasonVersions: much of a table is versions that only closed snapshots needed.
	ReasonVersions
	// ReasonIdle: the database is idle, and the plan makes reading faster.
	ReasonIdle
	// ReasonNeighbours: small tables are adjacent.
	ReasonNeighbours
	// ReasonScattered: values are not in the order of their keys.
	ReasonScattered
	// ReasonFiles: values are in many small files.
	ReasonFiles
	// ReasonManual: the user asked for it.
	ReasonManual
)

var reasonNames = [...]string{"", "dead", "move", "runs", "tables", "level 0", "values", "level", "expired", "deletions", "versions", "idle", "neighbours", "scattered", "files", "manual"}

// String returns the name used in logs.
func (r Reason) String() string {
	if int(r) >= len(reasonNames) {
		return "unknown"
	}
	return reasonNames[r]
}

// A Plan is one change of the tables of a version: drop them (Drop), move them unchanged to
// another level (Move), or merge them.
type Plan struct {
	Reason Reason
	// Inputs are the tables by level, those of level 0 newest first. The plan removes
	// all of them from their place.
	Inputs [manifest.Levels][]*manifest.Table
	// OutputLevel is the level of the outputs. Run is their run in level 0.
	OutputLevel int
	Run         uint64

	Drop, Move bool
	// Cuts says that the plan cuts one table of level 0 at all of Splits. The outputs take
	// its place in its run. Their filter is that of the table, which covers the whole run.
	Cuts bool
	// At most one of Gather and Join is set.
	//
	// Gather is the maximum number of bytes of values to rewrite in key order, starting
	// with the first key. The other values stay where they are.
	Gather uint64
	// Patient says that commits that arrive do not end the gathering.
	Patient bool
	// Join names the value files whose values are rewritten to one or a few files,
	// ascending. No table outside the plan refers to them.
	Join []base.FileNum
	// Bottom says that no table outside the plan holds older versions of the keys.
	Bottom bool
	// CreatedMs is the smallest CreatedMs of the inputs with tombstones, or the time of the
	// plan if there are none.
	CreatedMs uint64
	// Splits are keys, ascending, at which outputs should end, so that none overlaps
	// too much of the level below.
	Splits [][]byte
	// SplitMin is the minimum size in bytes of an output that ends at a split, or between two
	// keyspaces. Below level 0 it is an eighth of a full table or more.
	SplitMin int64
	// around says that each output ends at a split, so that none lies over a damaged table,
	// or over a bound at which the plan cuts.
	around bool
}

// Moves reports whether the plan also rewrites values.
func (p *Plan) Moves() bool { return p.Gather > 0 || len(p.Join) > 0 }

// ForFewerFiles reports whether the plan only reduces the number of files.
func (p *Plan) ForFewerFiles() bool { return p.Reason == ReasonNeighbours || p.Reason == ReasonFiles }

// InputBytes returns the size of all inputs in bytes.
func (p *Plan) InputBytes() int64 { return bytesOf(p.Tables()) }

// InputEntries returns the number of entries of all inputs.
func (p *Plan) InputEntries() uint64 { return entriesIn(p.Tables()) }

// OutputBytes estimates the output of a merge of the inputs in bytes: the inputs without
// what tombstones hide. Each tombstone is assumed to hide one entry. A range tombstone is
// assumed to hide nearly everything its table overlaps. The truth is unknown, and with a
// larger estimate the merge might never be tried. Entries hidden by other versions are not
// subtracted.
func (p *Plan) OutputBytes() int64 {
	kept, hiding, sets, deletions := 0.0, 0.0, 0.0, 0.0
	for level, tables := range p.Inputs {
		for _, t := range tables {
			size, part := float64(t.Size), float64(min(t.Deletions, t.Entries))/float64(max(1, t.Entries))
			if p.hiddenByRange(t, level) {
				size /= rangeLeaves
			}
			kept += size * (1 - part)
			hiding += size * part
			sets += float64(t.Entries) * (1 - part)
			deletions += float64(t.Deletions)
		}
	}
	kept *= 1 - min(1, deletions/max(1, sets))
	if !p.Bottom {
		kept += hiding
	}
	return int64(kept)
}

// rangeLeaves is a divisor: range tombstones are assumed to leave 1/rangeLeaves of what they
// overlap.
const rangeLeaves = 32

// hiddenByRange reports whether a range tombstone of another input may hide much of t, an
// input of the given level.
func (p *Plan) hiddenByRange(t *manifest.Table, level int) bool {
	for above, tables := range p.Inputs[:level+1] {
		for _, u := range tables {
			if u.RangeDeletions > 0 && u.Overlaps(t) && (above < level || u.Run > t.Run) {
				return true
			}
		}
	}
	return false
}

// Drops returns the places of all inputs.
func (p *Plan) Drops() []manifest.Place {
	var places []manifest.Place
	for level, tables := range p.Inputs {
		for _, t := range tables {
			places = append(places, manifest.Place{Level: level, Num: t.Num})
		}
	}
	return places
}

// Moved returns the tables of a Move in their new place.
func (p *Plan) Moved() []*manifest.Table {
	var moved []*manifest.Table
	for _, t := range p.Tables() {
		to := *t
		to.Level, to.Run, to.Filter = p.OutputLevel, p.Run, nil
		moved = append(moved, &to)
	}
	return moved
}

// String describes p for logs.
func (p *Plan) String() string {
	s := p.Reason.String() + ":"
	for level, tables := range p.Inputs {
		if len(tables) > 0 {
			s += fmt.Sprintf(" %d tables of level %d", len(tables), level)
		}
	}
	switch {
	case p.Drop:
		return s + " dropped"
	case p.Move:
		return s + fmt.Sprintf(" moved to level %d", p.OutputLevel)
	}
	s += fmt.Sprintf(" merged into level %d", p.OutputLevel)
	switch {
	case len(p.Join) > 0:
		s += fmt.Sprintf(", the values of %d files joined", len(p.Join))
	case p.Gather > 0:
		s += ", values gathered"
	}
	return s
}

// Tables returns the inputs of all levels.
func (p *Plan) Tables() []*manifest.Table {
	var all []*manifest.Table
	for _, tables := range p.Inputs {
		all = append(all, tables...)
	}
	return all
}

// Bounds returns the smallest range that contains all inputs. hi is inclusive unless
// hiExclusive is set.
func (p *Plan) Bounds() (lo, hi []byte, hiExclusive bool) {
	r := hull(p.Tables())
	return r.lo, r.hi, r.open
}

// finish closes the seams of the inputs, and derives the other fields from them: whether
// anything older is below, the splits, and whether a move is enough.
func (p *Plan) finish(v *manifest.Version, s Shape) Plan {
	p.closeSeams(v, &s)
	inputs := p.Tables()
	if invariant.Enabled {
		for i := 1; i < len(p.Inputs[0]); i++ {
			a, b := p.Inputs[0][i-1], p.Inputs[0][i]
			invariant.Check(a.Run > b.Run || a.Run == b.Run && a.EndsBefore(b.Smallest), "inputs of level 0 out of order")
		}
	}
	r := hull(inputs)
	p.Bottom = nothingBelow(v, p.OutputLevel, r)
	p.CreatedMs = oldestTombstone(inputs, s.AgeMs)
	if below := p.OutputLevel + 1; p.OutputLevel > 0 && below < manifest.Levels {
		p.Splits = grandparentSplits(within(v.Levels[below], r), s)
	}
	for _, t := range s.stuckIn(r) {
		p.Splits, p.around = append(p.Splits, t.Smallest), true
	}
	slices.SortFunc(p.Splits, bytes.Compare)
	p.Move = p.movable(inputs, s)
	return *p
}

// oldestTombstone returns the smallest CreatedMs of the tables that have tombstones, or now.
// The merge itself may make tombstones of values that expired or that a filter drops.
func oldestTombstone(tables []*manifest.Table, now uint64) uint64 {
	oldest := now
	for _, t := range tables {
		if t.Deletions+t.RangeDeletions > 0 {
			oldest = min(oldest, t.CreatedMs)
		}
	}
	return oldest
}

// movable reports whether the inputs can be moved unchanged: they come from one level, do
// not overlap each other, and merging would not remove garbage.
func (p *Plan) movable(inputs []*manifest.Table, s Shape) bool {
	from := 0
	for len(p.Inputs[from]) == 0 {
		from++
	}
	if s.Screens || from == p.OutputLevel || len(p.Inputs[from]) < len(inputs) {
		return false
	}
	if from == 0 && !disjoint(inputs) {
		return false
	}
	return !p.Bottom || !slices.ContainsFunc(inputs, func(t *manifest.Table) bool { return s.shrinks(t, from) })
}

// disjoint reports whether no two tables overlap. One ingest may add tens of thousands.
func disjoint(tables []*manifest.Table) bool {
	tables = slices.SortedFunc(slices.Values(tables), func(a, b *manifest.Table) int { return bytes.Compare(a.Smallest, b.Smallest) })
	for i := 1; i < len(tables); i++ {
		if !tables[i-1].EndsBefore(tables[i].Smallest) {
			return false
		}
	}
	return true
}

// nothingBelow reports whether no table below the level overlaps r.
func nothingBelow(v *manifest.Version, level int, r keyRange) bool {
	for below := level + 1; below < manifest.Levels; below++ {
		if len(within(v.Levels[below], r)) > 0 {
			return false
		}
	}
	return true
}

// grandparentSplits returns keys that cut tables into groups of at most about ten full
// tables.
func grandparentSplits(tables []*manifest.Table, s Shape) [][]byte {
	var splits [][]byte
	sum := int64(0)
	for _, t := range tables {
		if sum > 0 && sum+t.Size > 10*s.TableSize {
			splits = append(splits, t.Smallest)
			sum = 0
		}
		sum += t.Size
	}
	return splits
}
