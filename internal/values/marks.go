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
// once only repeat the work. The first mark in each piece allocates its memory, so reads of
// a few records of a large file take little. clear releases the memory. A mark set during
// clear may be lost.
type marks struct {
	shift  uint // log2 of the stretch size in bytes; 0 for bits
	pieces []atomic.Pointer[piece]
	taken  atomic.Int64 // bytes of the pieces
}

// A piece is the words of neighbouring marks.
type piece [pieceWords]atomic.Uint32

const (
	pieceWords = 256
	pieceBytes = 4 * pieceWords
)

// Bounds on the size of a stretch. Marks then take at most a 128th of the file's size,
// and an offset within a stretch fits the mark.
const (
	stretchMin     = 1 << 9
	stretchMaxBits = 30
)

func (m *marks) init(shortest, recordsEnd int64) {
	words := recordsEnd/(32*unit) + 1
	if m.shift = 0; shortest >= stretchMin {
		m.shift = uint(min(bits.Len64(uint64(shortest))-1, stretchMaxBits))
		words = recordsEnd>>m.shift + 1
	}
	m.pieces = make([]atomic.Pointer[piece], (words+pieceWords-1)/pieceWords)
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
	if m.shift == 0 {
		word, bit := m.bit(at)
		p := m.pieces[word/pieceWords].Load()
		return p != nil && p[word%pieceWords].Load()&bit != 0
	}
	word, verified := m.of(at)
	p := m.pieces[word/pieceWords].Load()
	return p != nil && p[word%pieceWords].Load() == verified
}

// set marks the record at offset at as verified.
func (m *marks) set(at int64) {
	if m.shift == 0 {
		word, bit := m.bit(at)
		m.piece(word)[word%pieceWords].Or(bit)
		return
	}
	word, verified := m.of(at)
	m.piece(word)[word%pieceWords].Store(verified)
}

// piece returns the piece of a word. It makes the piece if there is none.
func (m *marks) piece(word int64) *piece {
	at := &m.pieces[word/pieceWords]
	if p := at.Load(); p != nil {
		return p
	}
	fresh := new(piece)
	m.taken.Add(pieceBytes)
	if at.CompareAndSwap(nil, fresh) {
		return fresh
	}
	m.taken.Add(-pieceBytes)
	if p := at.Load(); p != nil {
		return p
	}
	return fresh // clear has released the other one meanwhile
}

// clear forgets all marks.
func (m *marks) clear() {
	for i := range m.pieces {
		if m.pieces[i].Swap(nil) != nil {
			m.taken.Add(-pieceBytes)
		}
	}
}

// heapBytes returns the size of the marks in bytes.
func (m *marks) heapBytes() int64 {
	return 8*int64(len(m.pieces)) + m.taken.Load()
}
