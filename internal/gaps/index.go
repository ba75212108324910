package gaps

import (
	"bytes"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
)

const (
	// countMax is how many gaps an index has at most.
	countMax = 1024
	// bytesMax is how much memory the gaps of an index take at most, in bytes.
	bytesMax = 512 << 10
	// keyMax is the length of the longest bound of a gap, in bytes.
	keyMax = 1024
)

// An Index has the gaps of one database. The zero value is empty.
type Index struct {
	// list has the gaps, ascending and disjoint. The slice is immutable.
	list atomic.Pointer[[]*Gap]
	// clock counts the uses of gaps.
	clock atomic.Uint64

	// adding is held to replace the list; it guards bytes.
	adding sync.Mutex
	bytes  int // of all gaps
}

// A Reader is what a gap must hold for.
type Reader struct {
	At base.SeqNum // the version that the reader reads
	// Clock tells the time by which it judges expiry, in milliseconds of Unix time.
	Clock interface{ NowMs() uint64 }
}

// Len returns the number of gaps.
func (x *Index) Len() int { return len(x.load()) }

func (x *Index) load() []*Gap {
	if list := x.list.Load(); list != nil {
		return *list
	}
	return nil
}

// Find returns the gap around key, and its widest range that holds for r. It returns nil
// if there is none.
func (x *Index) Find(key []byte, r Reader) (*Gap, *Step) {
	list := x.load()
	i := sort.Search(len(list), func(i int) bool { return bytes.Compare(list[i].widest().Lo, key) > 0 }) - 1
	if i < 0 {
		return nil, nil
	}
	s := list[i].step(key, r)
	if s == nil {
		return nil, nil
	}
	list[i].used.Store(x.clock.Add(1))
	return list[i], s
}

// Add adds the range s, in which a reader at version asOf has found nothing alive. The
// index keeps copies of the bounds.
//
// on is nil, or a gap of the index that the reader used: where s overlaps its widest
// range, nothing lives up to asOf either. If all of that range lies within s, the gap
// grows. If another reader has replaced the gap meanwhile, Add does nothing.
func (x *Index) Add(s Step, asOf base.SeqNum, on *Gap) {
	if len(s.Lo) > keyMax || len(s.Hi) > keyMax || !before(s.Lo, s.Hi) {
		return
	}
	x.adding.Lock()
	defer x.adding.Unlock()
	list := x.load()
	s.Lo, s.Hi = append([]byte{}, s.Lo...), bytes.Clone(s.Hi)
	g := &Gap{AsOf: asOf, steps: []Step{s}}
	if on != nil {
		if asOf < on.AsOf || !slices.Contains(list, on) {
			return
		}
		last := on.widest()
		s.From, s.Time = max(s.From, last.From), max(s.Time, last.Time)
		if g.steps[0] = s; bytes.Compare(s.Lo, last.Lo) <= 0 && !beyond(last.Hi, s.Hi) {
			g = on.extended(s, asOf)
		}
	}
	g.used.Store(x.clock.Add(1))
	x.replace(list, g)
}

// replace puts g in the place of what the gaps in list say of its range.
func (x *Index) replace(list []*Gap, g *Gap) {
	lo, hi := g.widest().Lo, g.widest().Hi
	from := sort.Search(len(list), func(i int) bool { return beyond(list[i].widest().Hi, lo) })
	to := from + sort.Search(len(list)-from, func(i int) bool { return !before(list[from+i].widest().Lo, hi) })
	next := make([]*Gap, 0, len(list)+3)
	next = append(next, list[:from]...)
	var right *Gap
	for _, old := range list[from:to] {
		x.bytes -= old.bytes()
		if left := old.below(lo); left != nil {
			next = append(next, left)
			x.bytes += left.bytes()
		}
		right = old.above(hi)
	}
	next = append(next, g)
	x.bytes += g.bytes()
	if right != nil {
		next = append(next, right)
		x.bytes += right.bytes()
	}
	next = append(next, list[to:]...)
	for len(next) > countMax || x.bytes > bytesMax {
		next = x.evict(next)
	}
	x.list.Store(&next)
}

// evict removes the gap from list that was used least recently.
func (x *Index) evict(list []*Gap) []*Gap {
	oldest := 0
	for i, g := range list {
		if g.used.Load() < list[oldest].used.Load() {
			oldest = i
		}
	}
	x.bytes -= list[oldest].bytes()
	return slices.Delete(list, oldest, oldest+1)
}
