package compact

import (
	"math"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// A Gathering says when values are worth bringing back into the order of their
// keys. It is done to tables of the last level, which holds nearly everything
// and stays as it is for longest.
type Gathering struct {
	// Share is the part of the pointers of a table that must lead to another
	// value file than the pointer before. Where values of n files lie mixed, each
	// with as many, that is 1 - 1/n. After a gathering it grows only with what is
	// written anew, so that a large Share keeps what gathering writes below a
	// small multiple of what users write.
	Share float64
	// PointersMin is how many values a table must have for the order of them to
	// matter.
	PointersMin uint64
	// RecordMax is the mean length of values beyond which they stay where they
	// are: a long one is read in one go wherever it lies.
	RecordMax uint64
	// Bytes is about how much one plan moves.
	Bytes uint64
}

// scattered reports whether the values of t are worth gathering.
func (g *Gathering) scattered(t *manifest.Table) bool {
	return t.Pointers >= max(2, g.PointersMin) &&
		float64(t.Jumps) >= g.Share*float64(t.Pointers) &&
		t.Referred() <= g.RecordMax*t.Pointers
}

// bringsTogether reports whether a gathering of t brings its values together from
// more files than it makes of them. That is a question only where some lie in files
// that cannot be read: those stay, and the jumps to them and back would be a reason
// to gather the others again and again.
func bringsTogether(v *manifest.Version, t *manifest.Table, bad map[base.FileNum]error) bool {
	from, bytes, stays := uint64(0), uint64(0), false
	for _, ref := range t.Values {
		if f, ok := v.Value(ref.File); ok && bad[f.File] != nil {
			stays = true
			continue
		}
		from++
		bytes += ref.Bytes
	}
	// It begins in a file that has values of the table before, and fills others.
	return !stays || from > 2+bytes/joinBytes
}

// worth reports whether t is to be gathered.
func (g *Gathering) worth(v *manifest.Version, s Shape, t *manifest.Table) bool {
	return g.scattered(t) && !s.Damaged[t.Num] && bringsTogether(v, t, s.BadValues)
}

// PickGathering returns a plan for the first tables of the last level whose
// values are worth gathering, or false when there are none. The next plan goes
// on behind them: a value file that only they refer to is garbage then.
//
// What a plan makes has no jumps but those from one full value file to the
// next, and so is never a reason for another one.
func PickGathering(v *manifest.Version, s Shape, g Gathering) (Plan, bool) {
	plan := Plan{Reason: ReasonScattered, OutputLevel: last}
	all := uint64(0)
	for _, t := range v.Levels[last] {
		begun, referred := len(plan.Inputs[last]) > 0, t.Referred()
		if !g.worth(v, s, t) {
			if begun {
				break
			}
			continue
		}
		if begun && all+referred > g.Bytes {
			break
		}
		plan.Inputs[last] = append(plan.Inputs[last], t)
		all += referred
	}
	if len(plan.Inputs[last]) == 0 {
		return Plan{}, false
	}
	if plan.Gather = g.Bytes; all < g.Bytes+g.Bytes/4 {
		plan.Gather = math.MaxInt64 // a small rest would be a plan of its own
	}
	return plan.finish(v, s.withDefaults()), true
}

// Ahead returns how many bytes of tables are worth a gathering, and how many of
// which value files that moves, if there is room for all.
func (g *Gathering) Ahead(v *manifest.Version, s Shape) (tables int64, values map[base.FileNum]uint64) {
	values = map[base.FileNum]uint64{}
	for _, t := range v.Levels[last] {
		if !g.worth(v, s, t) {
			continue
		}
		tables += t.Size
		for _, ref := range t.Values {
			values[ref.File] += ref.Bytes
		}
	}
	return tables, values
}
