package compact

import "github.com/stoatdb/stoat/internal/manifest"

// removable returns how many entries of t will surely go when t is rewritten
// at the bottom. Where that is none, rewriting t for its garbage alone might
// change nothing, and again the next time.
func (s Shape) removable(t *manifest.Table) uint64 {
	if t.LargestSeq > s.OldestSnapshot {
		return 0 // which of the entries a snapshot still needs is not known
	}
	n := t.Deletions + t.RangeDeletions + s.surplus(t)
	if t.OldestExpiry != 0 && t.OldestExpiry <= s.NowMs {
		n += max(1, s.expired(t))
	}
	return n
}

// surplus returns how many entries of t surely are more versions of their keys
// than are kept, if no snapshot needs them: those were there when t was written.
// A rewriting leaves none.
func (s Shape) surplus(t *manifest.Table) uint64 {
	if t.LargestSeq > s.OldestSnapshot {
		return 0
	}
	return Surplus(t, s.Versions)
}

// Surplus returns how many entries of t surely are more versions of their keys than
// the number that is kept: a snapshot needed them when t was written.
func Surplus(t *manifest.Table, versions int) uint64 {
	if t.Keys == 0 {
		return 0
	}
	return t.Entries - min(t.Entries, t.Keys*uint64(max(versions, 1)))
}

// expired estimates how many entries of t have expired, as if the moments of
// expiry were spread evenly.
func (s Shape) expired(t *manifest.Table) uint64 {
	switch {
	case t.Expiring == 0 || s.NowMs < t.OldestExpiry:
		return 0
	case s.NowMs >= t.NewestExpiry:
		return t.Expiring
	}
	part := float64(s.NowMs-t.OldestExpiry) / float64(t.NewestExpiry-t.OldestExpiry)
	return uint64(part * float64(t.Expiring))
}

// dead reports whether no entry of t shows a value to any snapshot. Deletions
// have no expiry in tables, so that no entry is counted twice.
func (s Shape) dead(t *manifest.Table) bool {
	return t.LargestSeq <= s.OldestSnapshot && t.Deletions+s.expired(t) == t.Entries
}

// pickDead finds tables that can be dropped unread: they show nothing, and
// what they might hide is not there. Tables of level 0 lie above all runs that
// are older.
func (p *picker) pickDead() (Plan, bool) {
	plan := Plan{Reason: ReasonDead, Drop: true, Bottom: true}
	found := false
	for i, run := range p.runs {
		for _, t := range run {
			if p.s.dead(t) && p.nothingOlder(i, t) && nothingBelow(p.v, 0, rangeOf(t)) {
				plan.Inputs[0], found = append(plan.Inputs[0], t), true
			}
		}
	}
	for level := 1; level <= last; level++ {
		for _, t := range p.v.Levels[level] {
			if p.s.dead(t) && nothingBelow(p.v, level, rangeOf(t)) {
				plan.Inputs[level], found = append(plan.Inputs[level], t), true
			}
		}
	}
	return plan, found
}

// nothingOlder reports whether no run older than the i-th meets t.
func (p *picker) nothingOlder(i int, t *manifest.Table) bool {
	for _, run := range p.runs[i+1:] {
		if len(within(run, rangeOf(t))) > 0 {
			return false
		}
	}
	return true
}

// pickGarbage finds the table, below level 0, with the largest part of
// garbage, if that is worth a rewriting. For level 0 see pickDeletions.
func (p *picker) pickGarbage() (Plan, bool) {
	var worst *manifest.Table
	var at int
	var most float64
	var why Reason
	for level := 1; level <= last; level++ {
		for _, t := range p.v.Levels[level] {
			if part, reason := p.garbageOf(t, level); part > most && !p.stuck(t, level) {
				worst, at, most, why = t, level, part, reason
			}
		}
	}
	if worst == nil {
		return Plan{}, false
	}
	return p.down(worst, at, why), true
}

// garbageOf returns what part of t, in the level, is garbage that is worth
// a rewriting, and of what kind. Above the last level deletions are pushed down
// to what they hide; in the last one only what is known to go counts.
func (p *picker) garbageOf(t *manifest.Table, level int) (float64, Reason) {
	if level == last && p.s.removable(t) == 0 {
		return 0, 0
	}
	all := float64(t.Entries + t.RangeDeletions)
	deletions := float64(t.Deletions+t.RangeDeletions) / all
	expired := float64(p.s.expired(t)) / all
	surplus := float64(p.s.surplus(t)) / all
	enough := 0.5
	if p.s.Idle {
		enough = 0.1
	}
	switch {
	case deletions+expired+surplus >= enough,
		deletions+expired > 0 && p.s.old(t),
		p.s.Idle && t.RangeDeletions > 0: // how much it hides is not known
		switch part := deletions + expired + surplus; {
		case surplus > max(deletions, expired):
			return part, ReasonVersions
		case expired > deletions:
			return part, ReasonExpired
		default:
			return part, ReasonDeletions
		}
	}
	return 0, 0
}

// old reports whether deletions in t have waited long enough.
func (s Shape) old(t *manifest.Table) bool {
	return s.NowMs >= t.CreatedMs && s.NowMs-t.CreatedMs >= s.DeletionAgeMs
}
