package state

import (
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/tree"
)

// pagesShare is the share of the memory budget that mapped pages may have in any
// case, however much memtables take.
const pagesShare = 1.0 / 4

// missedShare is the share of the available memory that tables may hold when LoadMissed has
// loaded one. Where memory is scarcer, they would soon be evicted again.
const missedShare = 1.0 / 4

// PagesBudget returns how many bytes of mapped pages the memory budget allows,
// when the readers of files take that many bytes beside them.
func (s *Store) PagesBudget(readers int64) int64 {
	b := s.o.MemoryBudget
	if mutant.On(mutant.IgnoreBudget) {
		b = 1 << 50
	}
	left := b - s.MemtableBytes() - s.obsolete.memtableBytes.Load() - s.Memory.Kept() - readers
	return max(int64(pagesShare*float64(b)), left)
}

// ReaderBytes returns about how many bytes the readers of files take beside
// mapped pages. residents are the open files, or nil.
func (s *Store) ReaderBytes(residents []tree.Resident) int64 {
	if residents == nil {
		residents = s.files.Residents(nil)
	}
	heap := s.view.Load().Tree.HeapBytes()
	for i := range residents {
		heap += residents[i].HeapBytes()
	}
	return heap + s.files.CacheBytes()
}
