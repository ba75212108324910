package cache

import (
	"encoding/binary"
	"sync"

	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/vfs"
)

// A shard is a ring of blocks in the order of their arrival. When the head needs
// space, the block at the tail leaves. If a reader used the block since it
// arrived, the shard moves it to the head once more instead.
//
//	memory   ... free ... | tail block | block | ... | head ... free ...
//
// A header precedes each block, little-endian. A block does not wrap around the
// end of the memory. wrap is the end of the last block before the ring wrapped.
//
//	offset  size  field
//	0       8     table
//	8       8     block
//	16      4     length of the data
//	20      4     1 if it was read since it came to this place
type shard struct {
	size int // of mem in bytes; immutable

	// mu guards the fields below.
	mu           sync.Mutex
	mem          []byte // nil until the first block arrives
	index        map[id]uint32
	head         int // where the next block goes
	tail         int // the oldest block, if there is one
	wrap         int // end of the last block before the ring wrapped; used while head < tail
	high         int // the highest offset ever written, for Stats
	closed       bool
	hits, misses uint64
}

const (
	headerSize = 24
	align      = 8
	// againMax is how many blocks one put moves to the head at most. It bounds
	// the time for which a put blocks readers.
	againMax = 8
)

// sizeOf returns the space in bytes that a block of n bytes takes.
func sizeOf(n int) int { return headerSize + (n+align-1)&^(align-1) }

func (s *shard) read(dst []byte, k id, from int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.index[k]
	if !ok {
		s.misses++
		return false
	}
	s.hits++
	h := s.mem[at : at+headerSize]
	n := int(binary.LittleEndian.Uint32(h[16:]))
	if from+len(dst) > n {
		return false // a miss: the caller expects another block
	}
	h[20] = 1
	copy(dst, s.mem[int(at)+headerSize+from:])
	return true
}

func (s *shard) put(k id, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.index[k]; ok || s.closed || sizeOf(len(data)) > s.size/2 || !s.begin() {
		return
	}
	s.makeRoom(sizeOf(len(data)))
	s.append(k, data)
}

// begin allocates the memory if it has none. If the system refuses, the shard
// keeps nothing and begin reports false.
func (s *shard) begin() bool {
	if s.mem != nil {
		return true
	}
	mem, err := vfs.Alloc(s.size)
	if err != nil {
		return false
	}
	s.mem, s.index = mem, make(map[id]uint32)
	return true
}

// makeRoom drops blocks until n bytes are free at the head.
func (s *shard) makeRoom(n int) {
	for again := 0; !s.fits(n); {
		if s.tail < s.head {
			// Too little is left up to the end: wrap around.
			s.wrap, s.head = s.head, 0
			continue
		}
		k, data, read := s.oldest()
		s.drop(k, len(data))
		if read && again < againMax && s.fits(sizeOf(len(data))) {
			again++
			s.append(k, data)
		}
	}
}

// fits reports whether n bytes are free at the head.
func (s *shard) fits(n int) bool {
	switch {
	case len(s.index) == 0:
		s.head, s.tail, s.wrap = 0, 0, 0
		return true
	case s.tail < s.head:
		return s.head+n <= s.size
	default:
		return s.head+n <= s.tail
	}
}

// oldest returns the block at the tail, and whether a reader used it.
func (s *shard) oldest() (k id, data []byte, read bool) {
	le := binary.LittleEndian
	h := s.mem[s.tail : s.tail+headerSize]
	k = id{le.Uint64(h), le.Uint64(h[8:])}
	n := int(le.Uint32(h[16:]))
	invariant.Check(s.index[k] == uint32(s.tail), "the index has the block at %d as at %d", s.tail, s.index[k])
	return k, s.mem[s.tail+headerSize:][:n], h[20] != 0
}

// drop removes the block at the tail. Its bytes stay until append overwrites
// them.
func (s *shard) drop(k id, n int) {
	delete(s.index, k)
	s.tail += sizeOf(n)
	if s.tail > s.head && s.tail == s.wrap {
		s.tail, s.wrap = 0, 0
	}
}

// append adds a block at the head, where makeRoom has made room. data may be the
// block that was just dropped, whose bytes then lie behind the head.
func (s *shard) append(k id, data []byte) {
	at := s.head
	copy(s.mem[at+headerSize:], data)
	h := s.mem[at : at+headerSize]
	le := binary.LittleEndian
	le.PutUint64(h, k.table)
	le.PutUint64(h[8:], k.block)
	le.PutUint32(h[16:], uint32(len(data)))
	le.PutUint32(h[20:], 0)
	s.index[k] = uint32(at)
	s.head += sizeOf(len(data))
	s.high = max(s.high, s.head)
}

func (s *shard) addTo(sum *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum.Bytes += int64(s.high)
	sum.Hits += s.hits
	sum.Misses += s.misses
}

func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mem != nil {
		err := vfs.Free(s.mem)
		invariant.Check(err == nil, "the shard's memory cannot be freed: %v", err)
	}
	s.mem, s.index, s.high, s.closed = nil, nil, 0, true
}
