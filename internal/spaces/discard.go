package spaces

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
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
	r.raises.add(k.Number, raise{at: at, last: r.o.Commits.LastSeq(), next: r.o.Store.NextFile()})
	r.o.Discarded()
	return nil
}

// Opened tells the registry the newest commit that the opening has recovered. It is
// called once, before any job runs.
func (r *Registry) Opened(last base.SeqNum) {
	for _, k := range r.o.Store.State().Keyspaces {
		if k.Settings.DiscardBelow > 0 {
			r.raises.add(k.Number, raise{at: k.Settings.DiscardBelow, last: last, next: r.o.Store.NextFile()})
		}
	}
}

// SettledBelow returns a timestamp of a keyspace. Every version below it, of every key,
// is in a commit before the given one.
func (r *Registry) SettledBelow(number uint32, before base.SeqNum) uint64 {
	return r.raises.settled(number, before)
}

// LastRaise is jobs.Raises.LastRaise.
func (r *Registry) LastRaise(number uint32, settled base.SeqNum) (last base.SeqNum, next base.FileNum, rose bool) {
	r.raises.Lock()
	defer r.raises.Unlock()
	p := r.raises.newest(number)
	switch {
	case p == nil:
		return 0, 0, false
	case !p.judged && settled >= p.last:
		return p.last, math.MaxUint64, true // until a merge begins
	}
	return p.last, p.next, true
}

// Judges is jobs.Raises.Judges.
func (r *Registry) Judges(number uint32, point uint64, settled base.SeqNum) {
	r.raises.Lock()
	defer r.raises.Unlock()
	if p := r.raises.newest(number); p != nil && !p.judged && p.at <= point && settled >= p.last {
		p.judged, p.next = true, r.o.Store.NextFile()
	}
}

// raises has the discard points of keyspaces, and when they rose.
type raises struct {
	sync.Mutex
	of map[uint32][]raise
}

// A raise is a discard point. All versions below it are in commits up to last.
type raise struct {
	at   uint64
	last base.SeqNum
	next base.FileNum // above the numbers of all files of that moment
	// judged says that next is from the beginning of the first merge that found last settled.
	// Earlier ones may have kept versions for a snapshot, or deletions for what memory had.
	judged bool
}

// raisesMax is the number of discard points of one keyspace that are kept.
const raisesMax = 32

// add notes that the discard point of a keyspace rose to at. When there are too many
// points, it forgets every second one. The old points, which jobs ask for, are then far
// apart, and the new ones close together.
func (r *raises) add(number uint32, p raise) {
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
}

// forget forgets the points of a keyspace that is gone.
func (r *raises) forget(number uint32) {
	r.Lock()
	defer r.Unlock()
	delete(r.of, number)
}

// newest returns the last point of a keyspace, or nil. The caller holds the lock.
func (r *raises) newest(number uint32) *raise {
	points := r.of[number]
	if len(points) == 0 {
		return nil
	}
	return &points[len(points)-1]
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
