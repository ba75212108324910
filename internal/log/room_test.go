package log

import "testing"

// A scantSpace has room for a number of bytes.
type scantSpace struct{ room, promised int64 }

func (s *scantSpace) Promise(bytes int64) bool {
	if s.promised+bytes > s.room {
		return false
	}
	s.promised += bytes
	return true
}

func (s *scantSpace) Taken(bytes int64) { s.promised -= bytes }

func TestWriter_MakesLargeSegmentsOnlyWhereThereIsRoom(t *testing.T) {
	t.Parallel()
	const small, large = 64 << 10, 1 << 20
	l := newFaultyLog(t, large)
	space := &scantSpace{room: 2*small - 1}
	l.w.o.Space = space
	largest := func() (size int64) {
		l.w.mu.Lock()
		defer l.w.mu.Unlock()
		for _, f := range l.w.mu.live {
			size = max(size, f.size)
		}
		return size
	}
	for range 40 {
		must(t, l.put())
	}
	if size := largest(); size != small {
		t.Errorf("without room, a segment has %d bytes, want %d", size, small)
	}
	space.room = large
	for range 100 {
		must(t, l.put())
	}
	if size := largest(); size != large {
		t.Errorf("with room, the largest segment has %d bytes, want %d", size, large)
	}
	if space.promised != 0 {
		t.Errorf("the log keeps a promise of %d bytes", space.promised)
	}
	must(t, l.w.Close())
}
