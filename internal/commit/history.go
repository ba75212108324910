package commit

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/lock"
)

// apartMax is the size of value files in bytes from which a stretch ends. What the log keeps
// for feeds begins with a whole stretch.
const apartMax = 4 << 20

// A stretch is a number of commits that follow each other in one segment of the log. A
// segment may have several stretches.
type stretch struct {
	ref   base.SegmentRef
	size  int64 // of the segment, in bytes
	first base.SeqNum
	last  base.SeqNum // SeqNumMax in the newest stretch
	apart int64       // bytes of the value files that the commits wrote
}

// A History tells which commits the log has, and where. The log keeps more than recovery
// needs: for the feeds of changes, up to a number of bytes.
type History struct {
	// next is the version of the next commit that continues the newest stretch in the
	// segment current, unless that stretch is full. All are guarded by the committer's build.
	next    base.SeqNum
	current uint64
	full    bool

	// durable is a version up to which all commits are on the device.
	durable atomic.Uint64
	feeds   atomic.Int64 // feeds under way

	mu lock.Mutex[lock.History]
	// Guarded by mu.
	stretches []stretch // ascending by number of segment and by version
	// The log lacks the versions after lackFrom up to lackTo: only tables have them.
	lackFrom, lackTo base.SeqNum

	rung atomic.Pointer[chan struct{}] // closed by the next ring, nil if no feed waits
}

// noteCommit says that the log gets a commit in a segment. The caller holds build.
func (h *History) noteCommit(ref base.SegmentRef, size int64, seq base.SeqNum) {
	if ref.Number == h.current && seq == h.next && !h.full {
		h.next++
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.stretches); n > 0 {
		h.stretches[n-1].last = min(h.stretches[n-1].last, h.next-1)
	}
	h.stretches = append(h.stretches, stretch{ref: ref, size: size, first: seq, last: base.SeqNumMax})
	h.current, h.next, h.full = ref.Number, seq+1, false
}

// weigh adds the size of value files that the newest commit wrote, in bytes. The caller
// holds build, or is Open.
func (h *History) weigh(bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.stretches[len(h.stretches)-1]
	s.apart += bytes
	h.full = s.apart >= apartMax
}

// noteCarried says that the log has written the last n commits of the history again, at the
// front of a segment. The caller holds build, or is Open.
func (h *History) noteCarried(ref base.SegmentRef, size, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := len(h.stretches)
	var moved []stretch // the newest first
	for left := base.SeqNum(n); left > 0 && kept > 0; {
		s := h.stretches[kept-1]
		s.last = min(s.last, h.next-1)
		if commits := s.last - s.first + 1; commits <= left {
			kept, left = kept-1, left-commits
		} else {
			s.first, s.apart = s.last-left+1, 0
			h.stretches[kept-1].last, left = s.first-1, 0
		}
		s.ref, s.size = ref, size
		moved = append(moved, s)
	}
	if len(moved) == 0 {
		return
	}
	moved[0].last = base.SeqNumMax
	slices.Reverse(moved)
	h.stretches = append(h.stretches[:kept], moved...)
	h.current = ref.Number
}

// noteLack says that the log ended with the version from when the database opened, and that
// tables have the versions up to to. A power cut took them from the log.
func (h *History) noteLack(from, to base.SeqNum) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lackFrom, h.lackTo = from, to
}

// noteTables says, like noteLack, that a commit is only in tables. The caller holds build.
func (h *History) noteTables(seq base.SeqNum) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.stretches) > 0 { // a commit after the last noteLack has begun another stretch
		h.lackFrom, h.lackTo = h.next-1, seq
	}
}

// find returns the stretch with a version. ok is false if the log does not have the version.
// Then after is the version after which the log has all commits up to the newest one.
func (h *History) find(seq base.SeqNum) (s stretch, after base.SeqNum, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.stretches) == 0 {
		return s, base.SeqNumMax, false
	}
	i, found := slices.BinarySearchFunc(h.stretches, seq, func(s stretch, seq base.SeqNum) int { return cmp.Compare(s.first, seq) })
	if !found {
		i--
	}
	if i < 0 || h.stretches[i].last < seq || seq > h.lackFrom && seq <= h.lackTo {
		return s, h.afterLocked(), false
	}
	return h.stretches[i], 0, true
}

// afterLocked returns the version after which the log has all commits up to the newest one.
func (h *History) afterLocked() base.SeqNum {
	i := len(h.stretches) - 1
	for i > 0 && h.stretches[i].first == h.stretches[i-1].last+1 {
		i--
	}
	after := h.stretches[i].first - 1
	if h.stretches[i].first <= h.lackTo { // the newest version is one of those
		after = max(after, h.lackTo)
	}
	return after
}

// release forgets the commits in segments before a number. They do not include the
// newest segment.
func (h *History) release(before uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stretches = slices.DeleteFunc(h.stretches, func(s stretch) bool { return s.ref.Number < before })
}

// keep returns the oldest segment that stays, if at least that many bytes of those before
// first are to stay beside the later ones. Value files of commits count, too. from is the
// version from which on commits stay, with their value files.
func (h *History) keep(first base.SegmentRef, bytes int64) (oldest base.SegmentRef, from base.SeqNum) {
	h.mu.Lock()
	defer h.mu.Unlock()
	oldest, from = first, base.SeqNumMax
	for i := len(h.stretches) - 1; i >= 0 && bytes > 0; i-- {
		s := h.stretches[i]
		from = s.first
		bytes -= s.apart
		if s.ref.Number < oldest.Number {
			oldest = s.ref
			bytes -= s.size
		}
	}
	return oldest, from
}

// ring wakes the feeds that wait for a commit, or for a failure that ends all commits.
func (h *History) ring() {
	if h.rung.Load() == nil {
		return
	}
	if rung := h.rung.Swap(nil); rung != nil { // or another ring has closed it
		close(*rung)
	}
}

// Rung returns a channel that is closed when more commits have become visible than at
// the time of the call, or when commits have failed.
func (h *History) Rung() <-chan struct{} {
	fresh := make(chan struct{})
	for {
		if rung := h.rung.Load(); rung != nil {
			return *rung
		}
		if h.rung.CompareAndSwap(nil, &fresh) {
			return fresh
		}
	}
}

// raiseDurable says that all commits up to seq are on the device.
func (h *History) raiseDurable(seq base.SeqNum) {
	for {
		was := h.durable.Load()
		if uint64(seq) <= was || h.durable.CompareAndSwap(was, uint64(seq)) {
			return
		}
	}
}

// keptBytes returns the size in bytes of the segments before those with commits after flushed.
func (h *History) keptBytes(flushed base.SeqNum) (bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := 1; i < len(h.stretches) && h.stretches[i-1].last <= flushed; i++ {
		if s := h.stretches[i-1]; s.ref.Number != h.stretches[i].ref.Number {
			bytes += s.size
		}
	}
	return bytes
}

// keepsMore reports whether keep would give up a segment before those with commits after
// flushed.
func (h *History) keepsMore(flushed base.SeqNum, bytes int64) bool {
	kept := h.keptBytes(flushed)
	if kept == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.stretches) > 0 && kept-h.stretches[0].size >= bytes
}
