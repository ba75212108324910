package jobs

import (
	"slices"
	"sort"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Raises tells when the discard points of keyspaces rose.
type Raises interface {
	// SettledBelow returns a timestamp of a keyspace. Every version below it is in a
	// commit before the given one.
	SettledBelow(keyspace uint32, before base.SeqNum) uint64
	// Raised returns the last rise of each discard point that ever rose, in the order of the
	// keys. It leaves out dropped keyspaces. The slice does not change any more.
	Raised() []*compact.Raise
	// Judges tells that a merge begins that drops versions below point, a discard point of
	// the keyspace. The caller holds Compacting, so that no other merge runs. Tables have all
	// commits up to settled, and all snapshots see them.
	Judges(keyspace uint32, point uint64, settled base.SeqNum)
}

// raisedIn returns those of some rises, in the order of their keys, of whose keyspaces a
// table may have keys. There may be thousands of keyspaces and of tables.
func raisedIn(t *manifest.Table, of []*compact.Raise) []*compact.Raise {
	of = of[sort.Search(len(of), func(i int) bool { return !t.StartsAfter(of[i].Hi) }):]
	return of[:sort.Search(len(of), func(i int) bool { return t.EndsBefore(of[i].Lo) })]
}

// discardable sets Shape.Discardable and Shape.DiscardPoint, unless no discard point ever
// rose. Each edit asks for shapes, so it looks at no keyspace.
func (j *Jobs) discardable(shape *compact.Shape) {
	if j.o.Raises == nil {
		return
	}
	all := j.o.Raises.Raised()
	if len(all) == 0 {
		return
	}
	settled := min(j.flushedSeq(), shape.OldestSnapshot)
	shape.Discardable = func(t *manifest.Table, level int) bool {
		return slices.ContainsFunc(raisedIn(t, all), func(r *compact.Raise) bool {
			counts := r.Judged || r.Last > settled // see compact.Raise
			judged := counts && level == manifest.Levels-1 && t.Num >= r.Next
			return !judged && t.SmallestSeq <= r.Last
		})
	}
	shape.DiscardPoint = func(t *manifest.Table) (lowest uint64) {
		for _, r := range raisedIn(t, all) {
			if lowest == 0 || r.Point < lowest {
				lowest = r.Point
			}
		}
		return lowest
	}
}

// discards returns what a job may drop of keyspaces with timestamps. plan is nil for a
// flush. oldest is the first of the job's snapshots. The function that it returns is nil if
// no keyspace has timestamps.
func (j *Jobs) discards(plan *compact.Plan, oldest base.SeqNum) func(number uint32) compact.Discard {
	s := j.store.State()
	if !slices.ContainsFunc(s.Keyspaces, (*manifest.Keyspace).Timed) {
		return nil
	}
	if plan != nil {
		for _, r := range j.o.Raises.Raised() {
			if r.Judged {
				continue
			}
			if k, ok := s.Keyspace(r.Keyspace); ok {
				j.o.Raises.Judges(k.Number, k.Settings.DiscardBelow, min(s.FlushedSeq, oldest))
			}
		}
	}
	var other compact.Elsewhere
	if plan != nil && plan.Bottom {
		other = plan.Elsewhere(s.Version, s.FlushedSeq+1)
	}
	return func(number uint32) compact.Discard {
		k, ok := s.Keyspace(number)
		if !ok || !k.Timed() {
			return compact.Discard{}
		}
		// A point that rose after s was taken does not count yet.
		return compact.Discard{Timed: true, Below: k.Settings.DiscardBelow, Purged: other.Purged, After: other.After,
			Settled: min(j.o.Raises.SettledBelow(number, other.First), k.Settings.DiscardBelow)}
	}
}
