package compact

import (
	"bytes"
	"slices"

	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/stamp"
)

// closeSeams adds tables of the last level to a merge into it: those beside the inputs that
// have versions of the first or the last user's key of the inputs. Otherwise the merge
// would keep the first version behind such a seam, because it does not see that a later one
// lies up to the discard point. The inputs stay within the bounds of a job. A gathering has
// room for its own values only.
func (p *Plan) closeSeams(v *manifest.Version, s *Shape) {
	if s.DiscardPoint == nil || p.OutputLevel != last || p.Reason == ReasonMove || p.Gather > 0 {
		return
	}
	// closes reports whether t joins the inputs. Its seam with them lies between two keys.
	closes := func(t *manifest.Table, before, behind []byte) bool {
		at, ok := stamp.Of(before)
		return ok && at <= s.DiscardPoint(t) && bytes.Equal(stamp.KeyOf(before), stamp.KeyOf(behind)) &&
			!s.Damaged[t.Num] && p.InputBytes()+t.Size <= s.surelyMax()
	}
	r := hull(p.Tables())
	g, _ := gapAround(v.Levels[last], r)
	if t := g.right; t != nil && !r.open && closes(t, r.hi, t.Smallest) {
		p.Inputs[last] = append(slices.Clip(p.Inputs[last]), t)
	}
	if t := g.left; t != nil && !t.LargestExclusive && closes(t, t.Largest, r.lo) {
		p.Inputs[last] = slices.Insert(slices.Clip(p.Inputs[last]), 0, t)
	}
}
