package jobs

import (
	"slices"
	"sort"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Raises tells when the discard points of keyspaces rose.
type Raises interface {
	// SettledBelow returns a timestamp of a keyspace. Every version below it is in a
	// commit before the given one.
	SettledBelow(keyspace uint32, before base.SeqNum) uint64
	// LastRaise describes the last rise of the discard point of a keyspace. rose is false if
	// the point never rose. The rise made garbage of versions up to last. Tables of the last
	// level from number next on hold none of it: a job has judged them.
	//
	// Tables have all commits up to settled, and all snapshots see them. Jobs that run before
	// last is settled keep some garbage. So once last is settled, next is above all tables,
	// until a merge begins.
	LastRaise(keyspace uint32, settled base.SeqNum) (last base.SeqNum, next base.FileNum, rose bool)
	// Judges tells that a merge begins that drops versions below point, a discard point of
	// the keyspace. The caller holds Compacting, so that no other merge runs.
	Judges(keyspace uint32, point uint64, settled base.SeqNum)
}

// A raisedSpace is a keyspace whose discard point rose, with what LastRaise tells of it.
type raisedSpace struct {
	lo, hi []byte // of its keys; hi is exclusive
	last   base.SeqNum
	next   base.FileNum
	point  uint64
}

// raisedIn returns those of some keyspaces, in the order of their keys, of which a table may
// have keys. There may be thousands of keyspaces and of tables.
func raisedIn(t *manifest.Table, of []raisedSpace) []raisedSpace {
	of = of[sort.Search(len(of), func(i int) bool { return !t.StartsAfter(of[i].hi) }):]
	return of[:sort.Search(len(of), func(i int) bool { return t.EndsBefore(of[i].lo) })]
}

// discardable sets Shape.Discardable and Shape.DiscardPoint, unless no keyspace has
// timestamps.
func (j *Jobs) discardable(shape *compact.Shape) {
	s := j.store.State()
	if !slices.ContainsFunc(s.Keyspaces, (*manifest.Keyspace).Timed) {
		return
	}
	var all []raisedSpace // s has the keyspaces in the order of their keys
	settled := min(s.FlushedSeq, shape.OldestSnapshot)
	for _, k := range s.Keyspaces {
		if last, next, rose := j.o.Raises.LastRaise(k.Number, settled); rose && !k.Dropping {
			space := keyspace.New(k.Number)
			lo, hi := space.Bounds()
			all = append(all, raisedSpace{lo, hi, last, next, k.Settings.DiscardBelow})
		}
	}
	shape.Discardable = func(t *manifest.Table, level int) bool {
		return slices.ContainsFunc(raisedIn(t, all), func(r raisedSpace) bool {
			judged := level == manifest.Levels-1 && t.Num >= r.next
			return !judged && t.SmallestSeq <= r.last
		})
	}
	shape.DiscardPoint = func(t *manifest.Table) (lowest uint64) {
		for _, r := range raisedIn(t, all) {
			if lowest == 0 || r.point < lowest {
				lowest = r.point
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
		for _, k := range s.Keyspaces {
			if k.Timed() {
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
