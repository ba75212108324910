package memtable

import (
	"slices"
	"sync"
	"unsafe"
)

// Slabs returns memory that cuts small blocks out of large ones of m, so that
// the system can back them with huge pages. Random reads in an arena of many
// small pages spend half their time in address translation. Blocks of at least a
// huge page come from m directly. The first slabs are small, so that a small
// table is small.
//
// A slab returns to m with the last of its blocks. So each table should have its
// own Slabs.
func Slabs(m Memory) Memory { return &slabs{from: m, next: slabFirst} }

const (
	slabFirst = 128 << 10
	slabMax   = 16 << 20
	hugePage  = 2 << 20
	// slabAlign gives each block of a slab its own cache lines.
	slabAlign = 64
)

type slabs struct {
	from Memory

	// mu guards the fields below, and the slabs in list.
	mu   sync.Mutex
	list []*slab // the last one is being cut
	next int     // size of the next one in bytes
}

type slab struct {
	bytes []byte
	used  int
	live  int // blocks in use
}

// holds reports whether b was cut from s.
func (s *slab) holds(b []byte) bool {
	at, base := uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(unsafe.SliceData(s.bytes)))
	return at >= base && at < base+uintptr(len(s.bytes))
}

func (m *slabs) Alloc(n int) ([]byte, error) {
	if n >= hugePage {
		return m.from.Alloc(n)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	size := (n + slabAlign - 1) &^ (slabAlign - 1)
	if len(m.list) == 0 || size > len(m.list[len(m.list)-1].bytes)-m.list[len(m.list)-1].used {
		b, err := m.from.Alloc(max(m.next, size))
		if err != nil {
			return nil, err
		}
		m.list = append(m.list, &slab{bytes: b})
		m.next = min(2*len(b), slabMax)
	}
	s := m.list[len(m.list)-1]
	b := s.bytes[s.used : s.used+n : s.used+n]
	s.used += size
	s.live++
	return b, nil
}

func (m *slabs) Free(b []byte) {
	if len(b) >= hugePage {
		m.from.Free(b)
		return
	}
	if len(b) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.list) - 1; i >= 0; i-- {
		s := m.list[i]
		if !s.holds(b) {
			continue
		}
		if s.live--; s.live == 0 {
			// The uncut rest of the slab goes with it: a caller that frees all
			// blocks is about to end.
			m.list = slices.Delete(m.list, i, i+1)
			m.from.Free(s.bytes)
		}
		return
	}
}
