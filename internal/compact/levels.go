package compact

import "github.com/stoatdb/stoat/internal/manifest"

// worstLevel returns the level between level 0 and the last that exceeds its target by the
// largest factor, and its table to push down. It skips levels for whose tables there is no
// room below. A level above the base counts as twice its target, so that it is emptied soon.
func (p *picker) worstLevel() (t *manifest.Table, level int, score float64) {
	for l := 1; l < last; l++ {
		size := p.v.Bytes(l)
		if size == 0 {
			continue
		}
		x := 2.0
		if target := p.target.bytes[l]; target > 0 {
			x = float64(size) / float64(target)
		}
		if x <= score {
			continue
		}
		if pick := p.pickLevel(l); pick != nil {
			t, level, score = pick, l, x
		}
	}
	return t, level, score
}

// pickLevel chooses the table of a level with the lowest cost of pushing it down per byte
// won. The bytes won are its own, and the bytes that its tombstones free. It returns nil if
// there is no room for any.
func (p *picker) pickLevel(level int) *manifest.Table {
	var best *manifest.Table
	var least float64
	for _, t := range p.v.Levels[level] {
		if !p.fits(t, level) {
			continue
		}
		below := within(p.v.Levels[level+1], rangeOf(t))
		cost := float64(bytesOf(below)) / (float64(t.Size) + freed(t.Deletions, below))
		if best == nil || cost < least {
			best, least = t, cost
		}
	}
	return best
}

// fits reports whether there is room for the output of pushing t, of a level below level 0,
// one level down.
func (p *picker) fits(t *manifest.Table, level int) bool {
	var below []*manifest.Table
	if level < last {
		below = within(p.v.Levels[level+1], rangeOf(t))
	}
	return !p.noRoom(t.Size+bytesOf(below), func() Plan {
		plan := Plan{OutputLevel: min(level+1, last)}
		plan.Inputs[level] = []*manifest.Table{t}
		if level < last {
			plan.Inputs[level+1] = below
		}
		return plan.finish(p.v, p.s)
	})
}

// freed estimates how many bytes that many tombstones remove from the tables below and
// from their value files. A tombstone removes no tombstone.
func freed(deletions uint64, below []*manifest.Table) float64 {
	entries := 0.0
	for _, u := range below {
		entries += float64(u.Entries - u.Deletions)
	}
	if entries == 0 {
		return 0
	}
	bytes := bytesWith(below)
	return min(bytes, float64(deletions)*bytes/entries)
}

// bytesWith returns the size of tables with the values that they refer to.
func bytesWith(tables []*manifest.Table) float64 {
	bytes := 0.0
	for _, t := range tables {
		bytes += float64(t.Size) + float64(t.Referred())
	}
	return bytes
}

// down returns the plan that pushes t one level down, or rewrites it in the last level.
// It takes along neighbours of t that overlap no more of the level below, within the
// bounds of a job and the room.
func (p *picker) down(t *manifest.Table, from int, why Reason) Plan {
	plan := Plan{Reason: why, OutputLevel: min(from+1, last)}
	if from == last {
		plan.Inputs[last] = []*manifest.Table{t}
		return plan.finish(p.v, p.s)
	}
	g, below := gapAround(p.v.Levels[from+1], rangeOf(t))
	plan.Inputs[from+1] = below
	plan.Inputs[from] = []*manifest.Table{t}
	if len(below) > 0 {
		plan.Inputs[from] = p.neighbours(t, from, g, p.s.surelyMax()-bytesOf(below))
	}
	return plan.finish(p.v, p.s)
}

// neighbours returns t and the tables to its right and left that lie in the gap, up to
// limit bytes.
func (p *picker) neighbours(t *manifest.Table, level int, g gap, limit int64) []*manifest.Table {
	near := g.meeting(p.v.Levels[level])
	at := 0
	for near[at] != t {
		at++
	}
	from, to, size := at, at+1, t.Size
	fits := func(u *manifest.Table) bool {
		return !g.reachesOutLeft(u) && !g.reachesOutRight(u) && size+u.Size <= limit
	}
	for ; to < len(near) && fits(near[to]); to++ {
		size += near[to].Size
	}
	for ; from > 0 && fits(near[from-1]); from-- {
		size += near[from-1].Size
	}
	return near[from:to]
}
