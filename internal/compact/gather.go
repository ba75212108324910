package compact

import (
	"math"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// A Gathering says when values should be moved back into the order of their keys. Only
// tables of the last level are gathered: it holds nearly everything and changes least.
type Gathering struct {
	// Share is the minimum fraction of a table's pointers whose value file differs
	// from that of the previous pointer. If values of n files are mixed evenly, the
	// fraction is 1 - 1/n. After a gathering only new writes raise it. So a large
	// Share keeps the writes of gathering below a small multiple of user writes.
	Share float64
	// PointersMin is the minimum number of pointers in a table for their order to
	// matter.
	PointersMin uint64
	// RecordMax is the maximum mean record size in bytes. Longer values stay where
	// they are: reading one takes one read anywhere.
	RecordMax uint64
	// Scanned reports whether iterators read a table so much that ScannedShare and
	// ScannedRecordMax count for it, if they allow more. nil means that none is.
	Scanned          func(t *manifest.Table) bool
	ScannedShare     float64
	ScannedRecordMax uint64
	// Bytes is the approximate number of bytes of values that one plan moves. A plan moves
	// fewer if their tables are larger than the inputs of other merges.
	Bytes uint64
}

// scattered reports whether the values of t are worth gathering.
func (g *Gathering) scattered(t *manifest.Table) bool {
	if t.Pointers < max(2, g.PointersMin) {
		return false
	}
	beyond := func(share float64, recordMax uint64) bool {
		return float64(t.Jumps) >= share*float64(t.Pointers) && t.Referred() <= recordMax*t.Pointers
	}
	return beyond(g.Share, g.RecordMax) ||
		g.Scanned != nil && beyond(g.ScannedShare, g.ScannedRecordMax) && g.Scanned(t)
}

// bringsTogether reports whether a gathering of t reads from more files than it writes. It
// only matters if some values are in unreadable files. Those values stay. The jumps to
// them and back would be a reason to gather the other values again and again.
func bringsTogether(v *manifest.Version, t *manifest.Table, bad map[base.FileNum]error) bool {
	if len(bad) == 0 {
		return true
	}
	from, bytes, stays := uint64(0), uint64(0), false
	for ref := range t.Values.All() {
		if f, ok := v.Value(ref.File); ok && bad[f.File] != nil {
			stays = true
			continue
		}
		from++
		bytes += ref.Bytes
	}
	// The output starts in a file with values of the previous table, and fills others.
	return !stays || from > 2+bytes/joinBytes
}

// worth reports whether t should be gathered.
func (g *Gathering) worth(v *manifest.Version, s Shape, t *manifest.Table) bool {
	return g.scattered(t) && !s.Damaged[t.Num] && bringsTogether(v, t, s.BadValues)
}

// PickGathering returns a plan for the first tables of the last level whose values are
// worth gathering, or false if there are none. The next plan continues behind them. A
// value file that only they refer to is garbage then.
//
// The output of a plan has jumps only from one full value file to the next. So it is
// never a reason for another gathering.
func PickGathering(v *manifest.Version, s Shape, g Gathering) (Plan, bool) {
	plan := Plan{Reason: ReasonScattered, OutputLevel: last}
	s = s.withDefaults()
	all, size := uint64(0), int64(0)
	for _, t := range v.Levels[last] {
		begun, referred := len(plan.Inputs[last]) > 0, t.Referred()
		if !g.worth(v, s, t) {
			if begun {
				break
			}
			continue
		}
		if begun && (all+referred > g.Bytes || size+t.Size > s.InputMax) {
			break
		}
		plan.Inputs[last] = append(plan.Inputs[last], t)
		all += referred
		size += t.Size
	}
	if len(plan.Inputs[last]) == 0 {
		return Plan{}, false
	}
	if plan.Gather = g.Bytes; all < g.Bytes+g.Bytes/4 {
		plan.Gather = math.MaxInt64 // take a small rest along, which would need its own plan
	}
	return plan.finish(v, s), true
}

// Scattered returns how many bytes of values are worth gathering.
func (g *Gathering) Scattered(v *manifest.Version, s Shape) (bytes uint64) {
	for _, t := range v.Levels[last] {
		if g.worth(v, s, t) {
			bytes += t.Referred()
		}
	}
	return bytes
}

// Ahead returns how many bytes of tables are worth gathering, and how many bytes of each
// value file that moves. It assumes that there is room for everything.
func (g *Gathering) Ahead(v *manifest.Version, s Shape) (tables int64, values map[base.FileNum]uint64) {
	values = map[base.FileNum]uint64{}
	for _, t := range v.Levels[last] {
		if !g.worth(v, s, t) {
			continue
		}
		tables += t.Size
		for ref := range t.Values.All() {
			values[ref.File] += ref.Bytes
		}
	}
	return tables, values
}
