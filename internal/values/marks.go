package values

import (
	"math/bits"
	"sync/atomic"
)

// marks remember which records were verified. A mark never stands for bytes
// that were not verified, also where a pointer is wrong or the footer lies
// about the shortest record: then more is verified again.
//
// Where no record is shorter than stretchMin, there is a mark of 4 bytes for
// each stretch as long as the shortest record, with the exact offset of the
// record in the stretch that was verified last. Otherwise there is a bit for
// each offset that a record may have, a 64th of the file.
//
// Any number of goroutines may use them; two that verify the same record at
// once only do the work twice. The memory is taken with the first mark, and
// clear lets go of it: a mark that somebody is about to set then may be lost.
type marks struct {
	shift uint // of a stretch; 0 if there are bits
	n     int  // how many words there are, when there are any
	words atomic.Pointer[[]atomic.Uint32]
}

// The stretch of a mark is bounded so that marks take no more than a 128th of
// the file, and an offset in it fits the mark.
const (
	stretchMin     = 1 << 9
	stretchMaxBits = 30
)

func (m *marks) init(shortest, recordsEnd int64) {
	if shortest < stretchMin {
		m.shift, m.n = 0, int(recordsEnd/(32*unit)+1)
		return
	}
	m.shift = uint(min(bits.Len64(uint64(shortest))-1, stretchMaxBits))
	m.n = int(recordsEnd>>m.shift + 1)
}

// bit returns which word has the bit for the record at offset at, and the bit.
func (m *marks) bit(at int64) (word int64, bit uint32) {
	return at / (32 * unit), 1 << (at / unit % 32)
}

// of returns which word is the mark for the record at offset at, and what it
// says once that record is verified.
func (m *marks) of(at int64) (word int64, verified uint32) {
	return at >> m.shift, uint32(at&(1<<m.shift-1))/unit + 1
}

// has reports whether the record at offset at was verified.
func (m *marks) has(at int64) bool {
	words := m.words.Load()
	if words == nil {
		return false
	}
	if m.shift == 0 {
		word, bit := m.bit(at)
		return (*words)[word].Load()&bit != 0
	}
	word, verified := m.of(at)
	return (*words)[word].Load() == verified
}

// set notes that it was.
func (m *marks) set(at int64) {
	words := m.words.Load()
	if words == nil {
		fresh := make([]atomic.Uint32, m.n)
		if words = &fresh; !m.words.CompareAndSwap(nil, words) {
			if words = m.words.Load(); words == nil {
				return
			}
		}
	}
	if m.shift == 0 {
		word, bit := m.bit(at)
		(*words)[word].Or(bit)
		return
	}
	word, verified := m.of(at)
	(*words)[word].Store(verified)
}

func (m *marks) clear() { m.words.Store(nil) }

// heapBytes is what the marks take.
func (m *marks) heapBytes() int64 {
	if m.words.Load() == nil {
		return 0
	}
	return 4 * int64(m.n)
}
