package values

import (
	"math/bits"
	"sync/atomic"
)

// marks remember which records were verified. There is one of 4 bytes for each
// stretch of the file as long as its shortest record, and it has the exact
// offset of the record in the stretch that was verified last. So a mark never
// stands for bytes that were not verified, also where a pointer is wrong or
// the footer lies about the shortest record: then more is verified again.
//
// Any number of goroutines may use them; two that verify the same record at
// once only do the work twice.
type marks struct {
	shift uint
	at    []atomic.Uint32
}

// The stretch of a mark is bounded so that marks take at most a 128th of the
// file, and an offset in it fits the mark.
const (
	stretchMinBits = 9
	stretchMaxBits = 30
)

func newMarks(shortest, recordsEnd int64) marks {
	shift := uint(min(max(bits.Len64(uint64(shortest))-1, stretchMinBits), stretchMaxBits))
	return marks{shift: shift, at: make([]atomic.Uint32, recordsEnd>>shift+1)}
}

// of returns the mark for the record at offset at, and what it says once that
// record is verified.
func (m *marks) of(at int64) (*atomic.Uint32, uint32) {
	return &m.at[at>>m.shift], uint32(at&(1<<m.shift-1))/unit + 1
}

func (m *marks) has(at int64) bool {
	mark, want := m.of(at)
	return mark.Load() == want
}

func (m *marks) clear() {
	for i := range m.at {
		m.at[i].Store(0)
	}
}
