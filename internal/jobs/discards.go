package jobs

import (
	"slices"

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
	// LastRaise returns the newest commit, and a number above those of all files, when
	// the discard point of a keyspace rose last. rose is false if it never did.
	LastRaise(keyspace uint32) (last base.SeqNum, next base.FileNum, rose bool)
}

func timed(k *manifest.Keyspace) bool { return k.Settings.Timestamps != 0 }

// discardable sets Shape.Discardable and Shape.DiscardPoint, unless no keyspace has
// timestamps.
func (j *Jobs) discardable(shape *compact.Shape) {
	s := j.store.State()
	if j.o.Raises == nil || !slices.ContainsFunc(s.Keyspaces, timed) {
		return
	}
	type raised struct {
		lo, hi []byte
		last   base.SeqNum
		next   base.FileNum
		point  uint64
	}
	var all []raised
	for _, k := range s.Keyspaces {
		if last, next, rose := j.o.Raises.LastRaise(k.Number); rose && !k.Dropping {
			space := keyspace.New(k.Number)
			lo, hi := space.Bounds()
			all = append(all, raised{lo, hi, last, next, k.Settings.DiscardBelow})
		}
	}
	holds := func(r raised, t *manifest.Table) bool { return !t.StartsAfter(r.hi) && !t.EndsBefore(r.lo) }
	shape.Discardable = func(t *manifest.Table, level int) bool {
		return slices.ContainsFunc(all, func(r raised) bool {
			judged := level == manifest.Levels-1 && t.Num >= r.next
			return !judged && t.SmallestSeq <= r.last && holds(r, t)
		})
	}
	shape.DiscardPoint = func(t *manifest.Table) (lowest uint64) {
		for _, r := range all {
			if holds(r, t) && (lowest == 0 || r.point < lowest) {
				lowest = r.point
			}
		}
		return lowest
	}
}

// discards returns what a job may drop of keyspaces with timestamps. plan is nil for a
// flush. The function that it returns is nil if no keyspace has timestamps.
func (j *Jobs) discards(plan *compact.Plan) func(number uint32) compact.Discard {
	s := j.store.State()
	if j.o.Raises == nil || !slices.ContainsFunc(s.Keyspaces, timed) {
		return nil
	}
	before := base.SeqNum(0)
	if plan != nil && plan.Bottom {
		before = plan.FirstElsewhere(s.Version, s.FlushedSeq+1)
	}
	return func(number uint32) compact.Discard {
		k, ok := s.Keyspace(number)
		if !ok || !timed(k) {
			return compact.Discard{}
		}
		// A point that rose after s was taken does not count yet.
		return compact.Discard{Timed: true, Below: k.Settings.DiscardBelow,
			Settled: min(j.o.Raises.SettledBelow(number, before), k.Settings.DiscardBelow)}
	}
}
