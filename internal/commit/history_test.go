package commit

import (
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/log"
)

// segmentAt returns the segment with a number.
func segmentAt(n uint64) base.SegmentRef { return base.SegmentRef{Number: n, File: n} }

// mustFind demands that each of the versions is in the segment of the same index, where 0
// is none.
func mustFind(t *testing.T, h *History, segments ...uint64) {
	t.Helper()
	for i, want := range segments {
		s, _, ok := h.find(base.SeqNum(i))
		if got := s.ref.Number; got != want || ok != (want > 0) {
			t.Errorf("version %d is in segment %d (%v), want %d", i, got, ok, want)
		}
	}
}

func TestHistory_TellsWhereCommitsAre(t *testing.T) {
	t.Parallel()
	var h History
	mustFind(t, &h, 0, 0)
	for i, segment := range []uint64{1, 1, 1, 2, 2, 4} {
		h.noteCommit(segmentAt(segment), 100, base.SeqNum(i+1))
	}
	h.noteCommit(segmentAt(4), 100, 9) // 7 and 8 are only in tables
	mustFind(t, &h, 0, 1, 1, 1, 2, 2, 4, 0, 0, 4)
	if _, after, ok := h.find(8); ok || after != 8 {
		t.Errorf("a feed can begin after %d, want 8", after)
	}
	h.noteCarried(segmentAt(5), 100, 3) // 9, 6 and 5
	mustFind(t, &h, 0, 1, 1, 1, 2, 5, 5, 0, 0, 5, 5)
	h.noteCommit(segmentAt(5), 100, 10)
	h.noteCommit(segmentAt(6), 100, 11)
	mustFind(t, &h, 0, 1, 1, 1, 2, 5, 5, 0, 0, 5, 5, 6)
	h.release(5)
	mustFind(t, &h, 0, 0, 0, 0, 0, 5, 5, 0, 0, 5, 5, 6)
}

// The first commit after a crash may write the last commits again, while a feed reads them.
func TestLogReader_GoesOnWhereTheLogHasWrittenCommitsAgain(t *testing.T) {
	t.Parallel()
	var c Committer
	for seq := base.SeqNum(1); seq <= 4; seq++ {
		c.History.noteCommit(segmentAt(1), 100, seq)
	}
	r := LogReader{c: &c, next: 3}
	if err := r.seek(); err != nil || r.in.ref != segmentAt(1) {
		t.Fatalf("version 3 is in segment %d, %v", r.in.ref.Number, err)
	}
	c.History.noteCarried(segmentAt(2), 100, 3)
	damaged := errors.New("damaged")
	if err := r.failed(damaged); err != nil {
		t.Fatalf("the reader ends with %v", err)
	}
	if err := r.seek(); err != nil || r.in.ref != segmentAt(2) {
		t.Errorf("version 3 is in segment %d, %v, want segment 2", r.in.ref.Number, err)
	}
	if err := r.failed(damaged); !errors.Is(err, damaged) {
		t.Errorf("a segment that stays is read with %v, want %v", err, damaged)
	}
}

func TestHistory_KeepsAtLeastSoManyBytes(t *testing.T) {
	t.Parallel()
	var h History
	for i := range uint64(4) {
		h.noteCommit(segmentAt(i+1), 100, base.SeqNum(i+1))
		if i == 1 {
			h.weigh(50)
		}
	}
	for _, c := range []struct {
		bytes  int64
		oldest uint64
		from   base.SeqNum
	}{
		{0, 4, base.SeqNumMax}, {1, 3, 3}, {100, 3, 3}, {101, 2, 2}, {250, 2, 2}, {251, 1, 1}, {1000, 1, 1},
	} {
		oldest, from := h.keep(segmentAt(4), c.bytes)
		if oldest.Number != c.oldest || from != c.from {
			t.Errorf("%d bytes: from segment %d and version %d on, want %d and %d", c.bytes, oldest.Number, from, c.oldest, c.from)
		}
	}
	for flushed, want := range []int64{0, 100, 200, 300, 300} {
		if n := h.keptBytes(base.SeqNum(flushed)); n != want {
			t.Errorf("flushed up to version %d: %d bytes are kept, want %d", flushed, n, want)
		}
	}
}

// With value files, one segment stands for more bytes than the log is to keep.
func TestHistory_KeepsThePartOfASegmentThatItsValueFilesNeed(t *testing.T) {
	t.Parallel()
	const large = apartMax / 2 // two commits make a stretch
	var h History
	seq := base.SeqNum(0)
	commit := func(segment uint64, n int) {
		for range n {
			seq++
			h.noteCommit(segmentAt(segment), 100, seq)
			h.weigh(large)
		}
	}
	commit(1, 5)
	commit(2, 4)
	mustFind(t, &h, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2)
	for _, c := range []struct {
		bytes  int64
		oldest uint64
		from   base.SeqNum
	}{
		{0, 2, base.SeqNumMax}, {1, 2, 8}, {2 * large, 2, 8}, {2*large + 1, 2, 6}, {4 * large, 2, 6},
		{4*large + 1, 1, 5}, {5*large + 100, 1, 5}, {5*large + 101, 1, 3}, {7*large + 101, 1, 1}, {1 << 40, 1, 1},
	} {
		oldest, from := h.keep(segmentAt(2), c.bytes)
		if oldest.Number != c.oldest || from != c.from {
			t.Errorf("%d bytes: from segment %d and version %d on, want %d and %d", c.bytes, oldest.Number, from, c.oldest, c.from)
		}
	}
	for flushed, want := range []int64{0, 0, 0, 0, 0, 100, 100, 100, 100, 100} {
		if n := h.keptBytes(base.SeqNum(flushed)); n != want {
			t.Errorf("flushed up to version %d: %d bytes are kept, want %d", flushed, n, want)
		}
	}
	h.noteCarried(segmentAt(3), 100, 3) // 9, 8 and 7, and the stretch of 6 and 7 is divided
	mustFind(t, &h, 0, 1, 1, 1, 1, 1, 2, 3, 3, 3)
	commit(3, 3)
	mustFind(t, &h, 0, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3)
	if _, after, ok := h.find(0); ok || after != 0 {
		t.Errorf("the log has all after %d, %t", after, ok)
	}
	h.release(2)
	mustFind(t, &h, 0, 0, 0, 0, 0, 0, 2, 3, 3, 3, 3, 3, 3)
	h.release(3)
	mustFind(t, &h, 0, 0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3)
	if _, after, ok := h.find(6); ok || after != 6 {
		t.Errorf("the log has all after %d, %t", after, ok)
	}
}

func TestLogReader_StaysInASegmentOfSeveralStretches(t *testing.T) {
	t.Parallel()
	var c Committer
	h := &c.History
	for seq := base.SeqNum(1); seq <= 3; seq++ {
		h.noteCommit(segmentAt(1), 100, seq)
		h.weigh(apartMax)
	}
	r := LogReader{c: &c, next: 1, r: new(log.SegmentReader)}
	r.in.ref = segmentAt(1)
	opened := r.r
	for ; r.next <= 3; r.next++ {
		if err := r.seek(); err != nil || r.r != opened || r.in.first != r.next {
			t.Errorf("version %d: %v, the same reader %t, the stretch of %d", r.next, err, r.r == opened, r.in.first)
		}
	}
}

func TestRung_IsClosedByTheNextRing(t *testing.T) {
	t.Parallel()
	var h History
	h.ring() // no feed waits
	for range 2 {
		rung := h.Rung()
		if other := h.Rung(); other != rung {
			t.Error("two feeds wait for different rings")
		}
		select {
		case <-rung:
			t.Error("it was closed before")
		default:
		}
		var rings sync.WaitGroup
		for range 2 {
			rings.Go(h.ring)
		}
		<-rung
		rings.Wait()
	}
}

func BenchmarkHistory_Find(b *testing.B) {
	for _, stretches := range []int{10, 100_000} {
		b.Run(strconv.Itoa(stretches), func(b *testing.B) {
			var h History
			for i := range stretches {
				h.noteCommit(segmentAt(uint64(i+1)), 100, base.SeqNum(i+1))
			}
			for b.Loop() {
				if _, _, ok := h.find(base.SeqNum(stretches)); !ok {
					b.Fatal("not found")
				}
			}
		})
	}
}
