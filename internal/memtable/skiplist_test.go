package memtable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// A skiplist is the usual memtable of other stores: nodes with towers of links
// in an arena. It is a benchmark opponent of Table on the same work, with
// everything in its favour: it keeps no versions, and has no concurrent readers.
//
// A node is its height (1 byte), key length (2), value length (4), 4 bytes for
// each link, the key and the value.
type skiplist struct {
	arena []byte
	rng   *rand.Rand
	head  uint32
}

const skiplistLevels = 20

func newSkiplist(size int) *skiplist {
	s := &skiplist{arena: make([]byte, 0, size), rng: rand.New(rand.NewPCG(1, 2))}
	s.arena = append(s.arena, 0)
	s.head = s.node(nil, nil, skiplistLevels)
	return s
}

func (s *skiplist) node(key, value []byte, height int) uint32 {
	at := uint32(len(s.arena))
	a := append(s.arena, byte(height))
	a = binary.LittleEndian.AppendUint16(a, uint16(len(key)))
	a = binary.LittleEndian.AppendUint32(a, uint32(len(value)))
	a = append(a, make([]byte, 4*height)...)
	a = append(a, key...)
	s.arena = append(a, value...)
	return at
}

func (s *skiplist) next(node uint32, level int) uint32 {
	return binary.LittleEndian.Uint32(s.arena[int(node)+7+4*level:])
}

func (s *skiplist) key(node uint32) []byte {
	a := s.arena[node:]
	from := 7 + 4*int(a[0])
	return a[from : from+int(binary.LittleEndian.Uint16(a[1:]))]
}

// seek returns the first node with a key >= key. If before is not nil, it
// receives the last node before that one on each level.
func (s *skiplist) seek(key []byte, before *[skiplistLevels]uint32) uint32 {
	at, next := s.head, uint32(0)
	for level := skiplistLevels - 1; level >= 0; level-- {
		for {
			next = s.next(at, level)
			if next == 0 || bytes.Compare(s.key(next), key) >= 0 {
				break
			}
			at = next
		}
		if before != nil {
			before[level] = at
		}
	}
	return next
}

func (s *skiplist) insert(key, value []byte) {
	var before [skiplistLevels]uint32
	s.seek(key, &before)
	height := 1
	for height < skiplistLevels && s.rng.Uint32()%4 == 0 {
		height++
	}
	n := s.node(key, value, height)
	for level := range height {
		link := s.arena[int(before[level])+7+4*level:]
		binary.LittleEndian.PutUint32(s.arena[int(n)+7+4*level:], binary.LittleEndian.Uint32(link))
		binary.LittleEndian.PutUint32(link, n)
	}
}

func benchSkiplist(n int) *skiplist {
	s := newSkiplist(n * 180)
	var k [32]byte
	for i := range n {
		s.insert(benchKey(k[:], uint64(i)), benchValue)
	}
	return s
}

func TestSkiplist_IsAFairOpponent(t *testing.T) {
	t.Parallel()
	s := benchSkiplist(2000)
	var last []byte
	n := 0
	for at := s.next(s.head, 0); at != 0; at = s.next(at, 0) {
		if bytes.Compare(last, s.key(at)) >= 0 {
			t.Fatalf("%q after %q", s.key(at), last)
		}
		last = s.key(at)
		n++
	}
	k := benchKey(nil, 1234)
	if n != 2000 || !bytes.Equal(s.key(s.seek(k, nil)), k) {
		t.Fatalf("%d keys, or one is missing", n)
	}
}

// BenchmarkSkiplist does what BenchmarkGet, BenchmarkAppendTable, BenchmarkScan
// and BenchmarkSeek10 do with a Table.
func BenchmarkSkiplist(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = benchKey(nil, r.Uint64N(benchKeys))
	}
	b.Run("insert", func(b *testing.B) {
		var k [32]byte
		var s *skiplist
		for i := range b.N {
			if i%400_000 == 0 {
				s = newSkiplist(400_000 * 180)
			}
			s.insert(benchKey(k[:], uint64(i)), benchValue)
		}
	})
	s := benchSkiplist(benchKeys)
	b.Run("get", func(b *testing.B) {
		for i := range b.N {
			k := keys[i%len(keys)]
			if !bytes.Equal(s.key(s.seek(k, nil)), k) {
				b.Fatal("wrong answer")
			}
		}
	})
	b.Run("scan", func(b *testing.B) {
		at := s.head
		n := 0
		for range b.N {
			if at = s.next(at, 0); at == 0 {
				at = s.next(s.head, 0)
			}
			n += len(s.key(at))
		}
		if n != 22*b.N {
			b.Fatal(fmt.Sprint("wrong answer ", n))
		}
	})
	b.Run("seek10", func(b *testing.B) {
		for i := range b.N {
			at := s.seek(keys[i%len(keys)], nil)
			for j := 0; j < 10 && at != 0; j++ {
				if len(s.key(at)) != 22 {
					b.Fatal("wrong answer")
				}
				at = s.next(at, 0)
			}
		}
	})
}
