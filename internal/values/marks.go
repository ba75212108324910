package values

import (
	"math/bits"
	"sync/atomic"
)

// marks remember which records were verified. A mark never stands for unverified
// bytes, even if a pointer is wrong or the footer has a wrong shortest record. Such a
// file only has its records verified again more often.
//
// If no record is shorter than stretchMin, the file is divided into stretches. A stretch
// is as long as the shortest record, rounded down to a power of two. It has a mark of 4
// bytes: the exact offset of the last verified record in it. Otherwise each possible
// offset of a record has a bit, which takes a 64th of the file's size.
//
// marks are safe for concurrent use: two goroutines that verify the same record at
// once only repeat the work. The first mark allocates the memory, and clear releases
// it. A mark set during clear may be lost.
type marks struct {
	shift uint // log2 of the stretch size in bytes; 0 for bits
	n     int  // length of words, once allocated
	words atomic.Pointer[[]atomic.Uint32]
}

// Bounds on the size of a stretch. Marks then take at most a 128th of the file's size,
// and an offset within a stretch fits the mark.
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

// bit returns the word and the bit for the record at offset at.
func (m *marks) bit(at int64) (word int64, bit uint32) {
	return at / (32 * unit), 1 << (at / unit % 32)
}

// of returns the word that is the mark for the record at offset at, and the word's
// value once that record is verified.
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

// set marks the record at offset at as verified.
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

// heapBytes returns the size of the marks in bytes.
func (m *marks) heapBytes() int64 {
	if m.words.Load() == nil {
		return 0
	}
	return 4 * int64(m.n)
}
