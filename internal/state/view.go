package state

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/tree"
)

// A View is the structures that hold the data: memtables, the newest first,
// and behind them the tables of the tree. It is immutable.
type View struct {
	Memtables []*memtable.Table // Memtables[0] takes the writes
	// LogFrom has a segment of the log for each memtable. No segment before it has
	// an entry of this memtable or of a newer one. The zero value is before all
	// that this opening of the database has written.
	LogFrom []base.SegmentRef
	Tree    *tree.View

	firstIn []uint64 // for each memtable, the generation of the first view with it
	mark    *mark    // what a reader of this view announces
}

// newView returns the first view.
func newView(active *memtable.Table, t *tree.View, files base.FileNum) *View {
	return &View{
		Memtables: []*memtable.Table{active},
		LogFrom:   make([]base.SegmentRef, 1),
		firstIn:   make([]uint64, 1),
		Tree:      t,
		mark:      &mark{files: files},
	}
}

// View returns the newest view.
func (s *Store) View() *View { return s.view.Load() }

// change replaces the view with what next makes of it.
func (s *Store) change(next func(v View) View) {
	s.changing.Lock()
	defer s.changing.Unlock()
	generation := s.view.Load().mark.generation + 1
	v := next(*s.view.Load())
	// The files that next has added got their numbers long before.
	v.mark = &mark{generation: generation, files: s.NextFile()}
	s.view.Store(&v)
}

// AddMemtables puts memtables before the present ones, the newest first. The log
// has their entries from segment from on.
func (s *Store) AddMemtables(from base.SegmentRef, newer ...*memtable.Table) {
	s.change(func(v View) View {
		starts := slices.Repeat([]base.SegmentRef{from}, len(newer))
		v.firstIn = append(slices.Repeat([]uint64{v.mark.generation + 1}, len(newer)), v.firstIn...)
		v.Memtables, v.LogFrom = append(newer, v.Memtables...), append(starts, v.LogFrom...)
		return v
	})
}

// InsertMemtable puts a memtable behind the active one, which is empty.
func (s *Store) InsertMemtable(from base.SegmentRef, t *memtable.Table) {
	s.change(func(v View) View {
		v.Memtables = slices.Insert(slices.Clone(v.Memtables), 1, t)
		v.LogFrom = slices.Insert(slices.Clone(v.LogFrom), 1, from)
		v.LogFrom[0] = from
		v.firstIn = slices.Insert(slices.Clone(v.firstIn), 1, v.mark.generation+1)
		return v
	})
}

// StartLogAt says that memory needs nothing of the log before segment from. The
// only memtable is empty.
func (s *Store) StartLogAt(from base.SegmentRef) {
	s.change(func(v View) View {
		v.LogFrom = []base.SegmentRef{from}
		return v
	})
}

// WithoutOldest returns the view without its oldest n memtables.
func (v View) WithoutOldest(n int) View {
	left := len(v.Memtables) - n
	v.Memtables, v.LogFrom, v.firstIn = v.Memtables[:left:left], v.LogFrom[:left:left], v.firstIn[:left:left]
	return v
}

// MemtablesSince returns the memtables, except the oldest ones that have nothing newer
// than since.
func (v *View) MemtablesSince(since base.SeqNum) []*memtable.Table {
	n := len(v.Memtables)
	for n > 0 && v.Memtables[n-1].LastSeq() <= since {
		n--
	}
	return v.Memtables[:n]
}

// BytesFrom returns the memory of v.Memtables[from:], in bytes. It may be called after
// they were released.
func (v *View) BytesFrom(from int) (bytes int64) {
	for _, t := range v.Memtables[from:] {
		bytes += t.Bytes()
	}
	return bytes
}

// A Fill is how full the memory for memtables is.
type Fill struct {
	Waiting      int   // the number of memtables that wait to be flushed
	WaitingBytes int64 // their size
	ActiveBytes  int64 // the size of the one that takes the writes
}

// Fill returns how full the memory for memtables is.
func (v *View) Fill() Fill {
	return Fill{Waiting: len(v.Memtables) - 1, WaitingBytes: v.BytesFrom(1), ActiveBytes: v.Memtables[0].Bytes()}
}

// Fill returns how full the memory for memtables is.
func (s *Store) Fill() Fill { return s.view.Load().Fill() }

// MemtableBytes returns the memory of the memtables of the newest view, in bytes.
// It takes neither a lock nor a slot: a memtable counts its bytes beside them,
// and has none once it was released.
func (s *Store) MemtableBytes() int64 { return s.view.Load().BytesFrom(0) }
