package compact

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/stamp"
)

// removable returns how many entries of t a rewrite of t at the bottom surely removes.
// If it is 0, rewriting t for its garbage alone might change nothing, again and again.
func (s Shape) removable(t *manifest.Table) uint64 {
	if t.LargestSeq > s.OldestSnapshot {
		return 0 // a snapshot may still need any of the entries
	}
	n := t.Deletions + t.RangeDeletions + s.surplus(t)
	expired := s.expired(t)
	if t.OldestExpiry != 0 && t.OldestExpiry <= s.NowMs && s.shielded[t] == 0 {
		expired = max(1, expired)
	}
	return n + max(expired, s.lapsed(t))
}

// shrinks reports whether a rewrite of t, of the given level, at the bottom may remove
// entries. Picking still ends: the output of the rewrite is not discardable.
func (s Shape) shrinks(t *manifest.Table, level int) bool {
	return s.removable(t) > 0 || s.Discardable != nil && s.Discardable(t, level)
}

// shrinksOnce is shrinks for a table of the last level that a caller rewrites once, whatever
// remains. It also takes tables with partial entries, which a rewrite may fold. And it takes
// tables with both kinds of expiry: nothing tells when their first version with a timestamp
// expires.
func (s Shape) shrinksOnce(t *manifest.Table) bool {
	return s.shrinks(t, last) ||
		t.LargestSeq <= s.OldestSnapshot && (t.Partials > 0 || stamped(t) && t.OldestExpiry < stamp.ExpiryMark)
}

// surplus returns how many entries of t surely exceed the number of versions to keep.
// Snapshots needed them when t was written. It is 0 if a snapshot may still need them. A
// rewrite leaves none.
func (s Shape) surplus(t *manifest.Table) uint64 {
	if t.LargestSeq > s.OldestSnapshot {
		return 0
	}
	return Surplus(t, s.VersionsIn(t))
}

// VersionsIn returns how many versions of a key of t stay at most. It asks for the
// setting of the keyspace of t, if all keys of t are of one keyspace.
func (s Shape) VersionsIn(t *manifest.Table) int {
	if s.VersionsOf == nil {
		return s.Versions
	}
	var w keyspace.Walk
	first := w.Number(t.Smallest)
	_, end := keyspace.Bounds(first)
	if order := bytes.Compare(t.Largest, end); order > 0 || order == 0 && !t.LargestExclusive {
		return s.Versions
	}
	return s.VersionsOf(first)
}

// Surplus returns how many entries of t surely exceed the number of versions to keep per
// key. A snapshot needed them when t was written.
func Surplus(t *manifest.Table, versions int) uint64 {
	if t.Keys == 0 {
		return 0
	}
	return t.Entries - min(t.Entries, t.Keys*uint64(max(versions, 1))+t.Partials)
}

// expired estimates how many entries of t have expired and go in a merge. Of a shielded
// table it counts only those that surely go, which it knows once all of them have expired.
func (s Shape) expired(t *manifest.Table) uint64 {
	kept := s.shielded[t]
	if kept > 0 && s.NowMs < t.NewestExpiry {
		return 0
	}
	n := s.past(t)
	return n - min(n, kept)
}

// past estimates how many entries of t have expired. It goes by the times at which a tenth and
// a half of them have. It also assumes that the times are spread evenly, which is wrong if a few
// values expire much later than the others.
func (s Shape) past(t *manifest.Table) uint64 { return s.between(t, t.OldestExpiry, t.NewestExpiry) }

// between is past for a table whose values expire from oldest to newest.
func (s Shape) between(t *manifest.Table, oldest, newest uint64) uint64 {
	switch {
	case t.Expiring == 0:
		return 0
	case s.NowMs >= newest:
		return t.Expiring
	case s.NowMs < oldest:
		return 0
	}
	part := float64(s.NowMs-oldest) / float64(newest-oldest)
	n := uint64(part * float64(t.Expiring))
	switch {
	case t.HalfExpired != 0 && s.NowMs >= t.HalfExpired:
		n = max(n, t.Entries/2)
	case t.TenthExpired != 0 && s.NowMs >= t.TenthExpired:
		n = max(n, t.Entries/10)
	}
	return min(n, t.Expiring-1) // an estimate never says all: then the table would be dropped unread
}

// stamped reports whether t has versions with timestamps that expire.
func stamped(t *manifest.Table) bool { return t.NewestExpiry >= stamp.ExpiryMark }

// lapsed estimates how many expired values a rewrite of t removes, if t has versions with
// timestamps that expire. A deletion without an expiry time takes the place of such a version,
// as it still hides older ones. So a rewrite leaves nothing that has expired. If the result
// is above 0, a rewrite removes at least one value.
func (s Shape) lapsed(t *manifest.Table) uint64 {
	if !stamped(t) {
		return 0
	}
	oldest, newest := t.OldestExpiry, t.NewestExpiry&^stamp.ExpiryMark
	switch {
	case oldest >= stamp.ExpiryMark:
		oldest &^= stamp.ExpiryMark
	case s.shielded[t] > 0:
		return 0 // the values without timestamps may stay
	case t.TenthExpired != 0:
		oldest = min(oldest, t.TenthExpired) // which may be of a version with a timestamp
	}
	if s.NowMs < min(oldest, newest) {
		return 0
	}
	return max(1, s.between(t, oldest, newest))
}

// dead reports whether no entry of t shows a value to any snapshot. Tombstones in tables
// have no expiry, so no entry is counted twice.
func (s Shape) dead(t *manifest.Table) bool {
	return t.LargestSeq <= s.OldestSnapshot && t.Deletions+s.expired(t) == t.Entries
}

// pickDead finds tables that can be dropped unread: they show nothing, and they hide
// nothing. A table of level 0 is above all older runs.
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

// nothingOlder reports whether no run older than the i-th overlaps t.
func (p *picker) nothingOlder(i int, t *manifest.Table) bool {
	for _, run := range p.runs[i+1:] {
		if len(within(run, rangeOf(t))) > 0 {
			return false
		}
	}
	return true
}

// pickGarbage finds the table, below level 0, with the largest fraction of garbage, if
// it is worth a rewrite. For level 0 see pickDeletions.
func (p *picker) pickGarbage() (Plan, bool) {
	var worst *manifest.Table
	var at int
	var most float64
	var why Reason
	for level := 1; level <= last; level++ {
		for _, t := range p.v.Levels[level] {
			if part, reason := p.garbageOf(t, level); part > most && p.fits(t, level) {
				worst, at, most, why = t, level, part, reason
			}
		}
	}
	if worst == nil {
		return Plan{}, false
	}
	return p.down(worst, at, why), true
}

// garbageOf returns the fraction of t that is garbage and its kind, or 0 if it is not
// worth a rewrite. Above the last level, tombstones are pushed down to what they hide.
// In the last level only surely removable entries count.
//
// Age alone makes only tombstones worth a rewrite. Values that expire one by one would make
// it due again and again. All of them together do so once, see fewButLarge.
func (p *picker) garbageOf(t *manifest.Table, level int) (float64, Reason) {
	outdated := p.s.outdatedPart(t, level)
	if level == last && p.s.removable(t) == 0 && outdated == 0 {
		return 0, 0
	}
	all := float64(t.Entries + t.RangeDeletions)
	deletions := float64(t.Deletions+t.RangeDeletions) / all
	expired := float64(max(p.s.expired(t), p.s.lapsed(t))) / all
	surplus := float64(p.s.surplus(t)) / all
	enough := 0.5
	if p.s.Idle {
		enough = 0.1
	}
	switch {
	case outdated >= enough && outdated > deletions+expired+surplus:
		return outdated, ReasonVersions
	case deletions+expired+surplus >= enough,
		expired > 0 && p.s.fewButLarge(t),
		deletions > 0 && p.s.old(t),
		p.s.Idle && t.RangeDeletions > 0: // how much it hides is unknown
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

// fewButLarge reports whether all values of t that expire have expired, and may have most of its
// bytes although they are few. Most bytes of t are then in value files.
func (s Shape) fewButLarge(t *manifest.Table) bool {
	return (s.Idle || s.Scarce) && s.NowMs >= t.NewestExpiry&^stamp.ExpiryMark && t.Referred() >= uint64(t.Size)
}

// old reports whether tombstones in t have reached the maximum age.
func (s Shape) old(t *manifest.Table) bool {
	return s.age(t) >= s.DeletionAgeMs
}

// age returns the age of t in milliseconds. After a restart t may be from a later time.
func (s Shape) age(t *manifest.Table) uint64 { return s.AgeMs - min(s.AgeMs, t.CreatedMs) }
