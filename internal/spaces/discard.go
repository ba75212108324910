package spaces

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
)

// DiscardBelow raises the discard point of a keyspace with timestamps to at. A lower
// point changes nothing. Its steps are:
//
//  1. The floor of the gate rises. Later reads and commits below it fail.
//  2. One edit of the manifest stores the point. From here on, compactions use it.
//  3. The registry notes the newest commit. All versions below the point are in it or
//     in commits before it.
func (r *Registry) DiscardBelow(h *Handle, at uint64) error {
	_, end, err := r.o.Group.Begin(context.Background())
	if err != nil {
		return err
	}
	defer end()
	// A power cut must not take a commit that came before, such as a copy of old versions.
	if err := r.o.Commits.SyncLog(); err != nil {
		return fmt.Errorf("discard below %d in keyspace %q: %w", at, h.Name, err)
	}
	r.defining.Lock()
	defer r.defining.Unlock()
	s := r.o.Store.State()
	old, ok := s.Keyspace(h.Space.Number())
	switch {
	case !ok || old.Dropping:
		return fmt.Errorf("%w: %q was dropped", base.ErrNoKeyspace, h.Name)
	case at <= old.Settings.DiscardBelow:
		return nil
	}
	k := *old
	k.Settings.DiscardBelow = at
	before := h.Gate.SetFloor(at)
	if err := r.record(manifest.Edit{PutKeyspaces: []*manifest.Keyspace{&k}}); err != nil {
		h.Gate.SetFloor(before)
		return fmt.Errorf("discard below %d in keyspace %q: %w", at, h.Name, err)
	}
	r.raises.add(k.Number, raise{at: at, last: r.o.Commits.LastSeq()}, r.o.Store.NextFile())
	r.o.Discarded()
	return nil
}

// Opened tells the registry the newest commit that the opening has recovered. It is
// called once, before any job runs.
func (r *Registry) Opened(last base.SeqNum) {
	for _, k := range r.o.Store.State().Keyspaces {
		if k.Settings.DiscardBelow > 0 && !k.Dropping {
			r.raises.add(k.Number, raise{at: k.Settings.DiscardBelow, last: last}, r.o.Store.NextFile())
		}
	}
}

// SettledBelow returns a timestamp of a keyspace. Every version below it, of every key,
// is in a commit before the given one.
func (r *Registry) SettledBelow(number uint32, before base.SeqNum) uint64 {
	return r.raises.settled(number, before)
}

// Raised is jobs.Raises.Raised.
func (r *Registry) Raised() []*compact.Raise {
	r.raises.Lock()
	defer r.raises.Unlock()
	r.raises.lent = true
	return r.raises.newest
}

// Judges is jobs.Raises.Judges. A merge judges only a rise that it finds settled: another one
// may keep versions for a snapshot, or deletions for what memory has.
func (r *Registry) Judges(number uint32, point uint64, settled base.SeqNum) {
	r.raises.Lock()
	defer r.raises.Unlock()
	i, found := r.raises.find(number)
	if !found {
		return
	}
	if p := *r.raises.newest[i]; !p.Judged && p.Point <= point && settled >= p.Last {
		p.Judged, p.Next = true, r.o.Store.NextFile()
		r.raises.own()
		r.raises.newest[i] = &p
	}
}

// raises has the discard points of keyspaces, and when they rose.
type raises struct {
	sync.Mutex
	of map[uint32][]raise
	// newest has the last rise of each keyspace, ascending by number. lent says that jobs may
	// hold the slice: the next change copies it.
	newest []*compact.Raise
	lent   bool
}

// A raise is a discard point. All versions below it are in commits up to last.
type raise struct {
	at   uint64
	last base.SeqNum
}

// raisesMax is the number of discard points of one keyspace that are kept.
const raisesMax = 32

// add notes that the discard point of a keyspace rose to p. next is above the numbers of all
// files of that moment. When there are too many points, add forgets every second one. The
// old points, which jobs ask for, are then far apart, and the new ones close together.
func (r *raises) add(number uint32, p raise, next base.FileNum) {
	r.Lock()
	defer r.Unlock()
	if r.of == nil {
		r.of = make(map[uint32][]raise)
	}
	points := append(r.of[number], p)
	if len(points) > raisesMax {
		kept := points[:0]
		for i := range points {
			if i%2 == 0 || i == len(points)-1 {
				kept = append(kept, points[i])
			}
		}
		points = kept
	}
	r.of[number] = points
	rise := &compact.Raise{Keyspace: number, Point: p.at, Last: p.last, Next: next}
	r.own()
	if i, found := r.find(number); found {
		rise.Lo, rise.Hi = r.newest[i].Lo, r.newest[i].Hi
		r.newest[i] = rise
	} else {
		rise.Lo, rise.Hi = keyspace.Bounds(number)
		r.newest = slices.Insert(r.newest, i, rise)
	}
}

// forget forgets the points of a keyspace that was dropped.
func (r *raises) forget(number uint32) {
	r.Lock()
	defer r.Unlock()
	delete(r.of, number)
	if i, found := r.find(number); found {
		r.own()
		r.newest = slices.Delete(r.newest, i, i+1)
	}
}

// find returns the index in newest of a keyspace, or where it belongs. The caller holds the
// lock.
func (r *raises) find(number uint32) (i int, found bool) {
	return slices.BinarySearchFunc(r.newest, number, func(p *compact.Raise, number uint32) int {
		return cmp.Compare(p.Keyspace, number)
	})
}

// own makes newest a slice that no job holds. The caller holds the lock.
func (r *raises) own() {
	if r.lent {
		r.newest, r.lent = slices.Clone(r.newest), false
	}
}

// settled returns the greatest point of a keyspace below which all versions are in
// commits before the given one, or 0.
func (r *raises) settled(number uint32, before base.SeqNum) (at uint64) {
	r.Lock()
	defer r.Unlock()
	for _, p := range r.of[number] {
		if p.last < before {
			at = p.at
		}
	}
	return at
}
