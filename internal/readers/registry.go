package readers

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// A Slot belongs to one reader while it reads. Its word publishes the reader's
// snapshot:
//
//	bits   field
//	63-16  sequence number of the snapshot; the largest of all if there is none
//	15-1   tick, advanced each time the slot is taken
//	0      1 while the slot is held
//
// Data belongs to the holder. The registry keeps it from one holder to the next,
// so that beginning a read allocates nothing.
type Slot[T any] struct {
	word atomic.Uint64
	home *home // nil in the first chunk, where each reader looks first
	Data T
	_    [64]byte // keeps the words of two slots on different cache lines
}

// A home tells the registry in which chunk a slot has become free.
type home struct {
	hint  *atomic.Int64
	chunk int64
}

// Seq returns the snapshot of a held slot.
func (s *Slot[T]) Seq() base.SeqNum { return base.SeqNum(s.word.Load() >> 16) }

// Held reports whether a reader holds the slot.
func (s *Slot[T]) Held() bool { return s.word.Load()&slotHeld != 0 }

const (
	slotHeld  = 1
	slotTicks = 0xfffe
	tickOne   = 2

	chunkSlots = 64
	// probes is how many slots near its own a reader tries before it searches
	// all slots.
	probes = 4
)

type chunk[T any] [chunkSlots]Slot[T]

// A Registry knows every snapshot in use. Taking a slot is a compare-and-swap,
// releasing it is a store. No reader waits for another, except to add slots when
// all are taken. Beside many readers that stay, a reader looks first where a slot was
// free last.
//
// It answers three questions. Oldest: which versions may a reader still see?
// Held: which readers are there? Barrier: have all readers of a given moment
// ended?
type Registry[T any] struct {
	chunks     atomic.Pointer[[]*chunk[T]]
	grow       sync.Mutex // guards stores to chunks; loads need no lock
	spread     uint       // mask of the bits of stackHint that are used
	noSnapshot atomic.Uint64

	_ [64]byte // readers store hint, and load the fields above
	// hint is the chunk where acquireSlow last found a slot, or where a reader last
	// released one.
	hint atomic.Int64
}

// NewRegistry returns a registry with no readers. With spread, readers look for
// a slot at different places, so that they seldom meet. Without it, readers begin at
// the same place, so their order alone determines which slots they get.
func NewRegistry[T any](spread bool) *Registry[T] {
	r := new(Registry[T])
	if spread {
		r.spread = chunkSlots - 1
	}
	r.noSnapshot.Store(uint64(base.SeqNumMax))
	r.chunks.Store(&[]*chunk[T]{new(chunk[T])})
	return r
}

// NoSnapshot returns what a caller passes to Acquire in place of visible if it
// needs a slot for its data and reads no snapshot. The number is beyond all
// snapshots. So such a slot keeps no version of a key, and no barrier waits for
// it.
func (r *Registry[T]) NoSnapshot() *atomic.Uint64 { return &r.noSnapshot }

// Acquire takes a slot for a snapshot of everything that visible covers.
//
// The reader announces the snapshot before it uses it. It stores the number in the slot,
// and keeps it only if visible has not moved since. So a caller of Oldest either sees the
// slot, or read visible when it was not beyond this snapshot.
func (r *Registry[T]) Acquire(visible *atomic.Uint64) *Slot[T] {
	chunks := *r.chunks.Load()
	at := stackHint() & r.spread
	for i := range uint(probes) {
		if s := &chunks[0][(at+i)%chunkSlots]; s.take(visible) {
			return s
		}
	}
	return r.acquireSlow(visible)
}

func (r *Registry[T]) acquireSlow(visible *atomic.Uint64) *Slot[T] {
	for {
		chunks := *r.chunks.Load()
		n := int64(len(chunks))
		first := min(r.hint.Load(), n-1) // chunks may be older than the hint
		for i := range n {
			at := (first + i) % n
			if s := chunks[at].take(visible); s != nil {
				r.hint.Store(at)
				return s
			}
		}
		r.grow.Lock()
		if len(*r.chunks.Load()) == len(chunks) {
			more := append(chunks[:n:n], r.newChunk(n))
			r.chunks.Store(&more)
			r.hint.Store(n)
		}
		r.grow.Unlock()
	}
}

// newChunk returns the chunk with a number above 0.
func (r *Registry[T]) newChunk(number int64) *chunk[T] {
	c, h := new(chunk[T]), &home{&r.hint, number}
	for i := range c {
		c[i].home = h
	}
	return c
}

// take takes the first free slot, or returns nil.
func (c *chunk[T]) take(visible *atomic.Uint64) *Slot[T] {
	for i := range c {
		if s := &c[i]; s.take(visible) {
			return s
		}
	}
	return nil
}

// stackHint returns a number that likely stays the same for one goroutine and
// differs between goroutines: the page of its stack. A wrong guess costs a
// probe.
func stackHint() uint {
	var here byte
	p := uint(uintptr(unsafe.Pointer(&here)))
	return (p >> 11) ^ (p >> 17)
}

func (s *Slot[T]) take(visible *atomic.Uint64) bool {
	w := s.word.Load()
	if w&slotHeld != 0 {
		return false
	}
	tick := (w + tickOne) & slotTicks
	seq := visible.Load()
	if !s.word.CompareAndSwap(w, seq<<16|tick|slotHeld) {
		return false
	}
	for {
		now := visible.Load()
		if now == seq {
			return true
		}
		seq = now
		s.word.Store(seq<<16 | tick | slotHeld)
	}
}

// Release ends the read. The holder must not use the slot afterwards.
func (s *Slot[T]) Release() {
	w := s.word.Load()
	invariant.Check(w&slotHeld != 0, "Release of a slot that is not held")
	s.word.Store(w & slotTicks)
	if h := s.home; h != nil && h.hint.Load() != h.chunk {
		h.hint.Store(h.chunk)
	}
}

// all calls yield for each slot, until it returns false.
func (r *Registry[T]) all(yield func(*Slot[T]) bool) {
	for _, c := range *r.chunks.Load() {
		for i := range c {
			if !yield(&c[i]) {
				return
			}
		}
	}
}

// Oldest returns the oldest snapshot that a reader uses or may still take.
// Versions that no snapshot from there on shows can be dropped.
func (r *Registry[T]) Oldest(visible *atomic.Uint64) base.SeqNum {
	oldest := visible.Load() // before the slots: see Acquire
	for s := range r.all {
		if w := s.word.Load(); w&slotHeld != 0 {
			oldest = min(oldest, w>>16)
		}
	}
	return base.SeqNum(oldest)
}

// Snapshots returns the snapshots that readers use or may still take, each once,
// ascending. The last is the visible one. Of the versions up to it, only those
// that one of these snapshots shows are needed. All later versions are needed.
func (r *Registry[T]) Snapshots(visible *atomic.Uint64) []base.SeqNum {
	last := base.SeqNum(visible.Load()) // before the slots: see Acquire
	out := []base.SeqNum{last}
	for s := range r.all {
		w := s.word.Load()
		if seq := base.SeqNum(w >> 16); w&slotHeld != 0 && seq < last {
			out = append(out, seq)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Active returns the number of held slots.
func (r *Registry[T]) Active() int {
	n := 0
	for s := range r.all {
		n += int(s.word.Load() & slotHeld)
	}
	return n
}

// Begun returns a number that changes when readers begin, and how many read a snapshot now.
// The number also counts holders that read no snapshot.
func (r *Registry[T]) Begun() (begun uint64, open int) {
	for s := range r.all {
		w := s.word.Load()
		begun += (w & slotTicks) / tickOne
		if w&slotHeld != 0 && base.SeqNum(w>>16) != base.SeqNumMax {
			open++
		}
	}
	return begun, open
}

// Held calls yield for each held slot, until it returns false. It may miss
// readers that begin or end meanwhile.
func (r *Registry[T]) Held(yield func(*Slot[T]) bool) {
	for s := range r.all {
		if s.Held() && !yield(s) {
			return
		}
	}
}

// A Barrier is the set of readers at one moment.
type Barrier[T any] struct {
	slots []*Slot[T]
	words []uint64
}

// Barrier returns the current readers that read a snapshot.
func (r *Registry[T]) Barrier() *Barrier[T] {
	b := new(Barrier[T])
	for s := range r.all {
		if w := s.word.Load(); w&slotHeld != 0 && w>>16 != uint64(base.SeqNumMax) {
			b.slots = append(b.slots, s)
			b.words = append(b.words, w&(slotTicks|slotHeld))
		}
	}
	return b
}

// Passed reports whether every reader of the barrier has ended. A slot that was
// taken again has a later tick. After 32,768 takes the tick repeats; then the
// barrier only waits longer.
func (b *Barrier[T]) Passed() bool {
	for len(b.slots) > 0 {
		if b.slots[0].word.Load()&(slotTicks|slotHeld) == b.words[0] {
			return false
		}
		last := len(b.slots) - 1
		b.slots[0], b.words[0] = b.slots[last], b.words[last]
		b.slots, b.words = b.slots[:last], b.words[:last]
	}
	return true
}
