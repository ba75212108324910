package txn

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// A Slot is held by one reader while it reads. Its word tells everybody which
// snapshot that is:
//
//	bits   field
//	63-16  sequence number of the snapshot; the largest of all if there is none
//	15-1   tick, advanced each time the slot is taken
//	0      1 while the slot is held
//
// Data belongs to the holder; the registry keeps it from one holder to the
// next so that beginning to read allocates nothing.
type Slot[T any] struct {
	word atomic.Uint64
	Data T
	_    [64]byte // the words of two slots never share a cache line
}

// Seq returns the snapshot of a held slot.
func (s *Slot[T]) Seq() base.SeqNum { return base.SeqNum(s.word.Load() >> 16) }

// Held reports whether a reader has the slot.
func (s *Slot[T]) Held() bool { return s.word.Load()&slotHeld != 0 }

const (
	slotHeld  = 1
	slotTicks = 0xfffe
	tickOne   = 2

	chunkSlots = 64
	// probes is how many slots near its own a reader tries before it looks
	// at all of them.
	probes = 4
)

type chunk[T any] [chunkSlots]Slot[T]

// A Registry knows every snapshot that is being read. Taking and leaving a
// slot is a compare-and-swap and a store; no reader waits for another.
//
// Three questions are asked of it. Oldest: which versions may still be seen?
// Held: who reads, of whom the data of the slot tells more? Barrier: have all
// ended who read at some moment?
type Registry[T any] struct {
	chunks     atomic.Pointer[[]*chunk[T]]
	grow       sync.Mutex
	spread     uint // has the bits of the hint that count
	noSnapshot atomic.Uint64
}

// NewRegistry returns a registry with no readers. With spread, readers look for
// a slot at different places, so that they seldom meet. Without, they take the
// first that is free, and who gets which follows from their order alone.
func NewRegistry[T any](spread bool) *Registry[T] {
	r := new(Registry[T])
	if spread {
		r.spread = chunkSlots - 1
	}
	r.noSnapshot.Store(uint64(base.SeqNumMax))
	r.chunks.Store(&[]*chunk[T]{new(chunk[T])})
	return r
}

// NoSnapshot is for Acquire, in place of visible, by who needs a slot for its data
// and reads no snapshot: what lies beyond all of them keeps no version of a key, and
// no barrier waits for its holder.
func (r *Registry[T]) NoSnapshot() *atomic.Uint64 { return &r.noSnapshot }

// Acquire takes a slot for a snapshot of everything that visible covers.
//
// The snapshot is announced before it is used: the number is stored in the
// slot, and only if visible has not moved since is it taken for good. So
// whoever computes Oldest either sees the slot, or computed it from a visible
// that was not beyond this snapshot.
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
		for _, c := range chunks {
			for i := range c {
				if s := &c[i]; s.take(visible) {
					return s
				}
			}
		}
		r.grow.Lock()
		if len(*r.chunks.Load()) == len(chunks) {
			more := append(chunks[:len(chunks):len(chunks)], new(chunk[T]))
			r.chunks.Store(&more)
		}
		r.grow.Unlock()
	}
}

// stackHint is a number that is likely the same for one goroutine from call
// to call and different between goroutines: the page of its stack. A wrong
// guess costs a probe.
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

// Release ends the reading. The holder must not touch the slot afterwards.
func (s *Slot[T]) Release() {
	w := s.word.Load()
	invariant.Check(w&slotHeld != 0, "a slot that is not held was released")
	s.word.Store(w & slotTicks)
}

// Oldest returns the oldest snapshot that is being read or may yet be taken.
// Versions that no snapshot from there on shows can be dropped.
func (r *Registry[T]) Oldest(visible *atomic.Uint64) base.SeqNum {
	oldest := visible.Load() // before the slots: see Acquire
	for _, c := range *r.chunks.Load() {
		for i := range c {
			if w := c[i].word.Load(); w&slotHeld != 0 {
				oldest = min(oldest, w>>16)
			}
		}
	}
	return base.SeqNum(oldest)
}

// Snapshots returns the snapshots that are being read or may yet be taken, each
// once, ascending. The last is the visible one: of the versions up to it, only
// what one of these snapshots shows is of use to anybody; all later versions
// are.
func (r *Registry[T]) Snapshots(visible *atomic.Uint64) []base.SeqNum {
	last := base.SeqNum(visible.Load()) // before the slots: see Acquire
	out := []base.SeqNum{last}
	for _, c := range *r.chunks.Load() {
		for i := range c {
			w := c[i].word.Load()
			if seq := base.SeqNum(w >> 16); w&slotHeld != 0 && seq < last {
				out = append(out, seq)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Active returns how many slots are held.
func (r *Registry[T]) Active() int {
	n := 0
	for _, c := range *r.chunks.Load() {
		for i := range c {
			n += int(c[i].word.Load() & slotHeld)
		}
	}
	return n
}

// Held calls yield for each slot that is held, until it returns false. Readers
// that begin or end meanwhile may be among them or not.
func (r *Registry[T]) Held(yield func(*Slot[T]) bool) {
	for _, c := range *r.chunks.Load() {
		for i := range c {
			if s := &c[i]; s.Held() && !yield(s) {
				return
			}
		}
	}
}

// A Barrier is the set of readers that were reading at one moment.
type Barrier[T any] struct {
	slots []*Slot[T]
	words []uint64
}

// Barrier returns the readers of this moment, as far as they read a snapshot.
func (r *Registry[T]) Barrier() *Barrier[T] {
	b := new(Barrier[T])
	for _, c := range *r.chunks.Load() {
		for i := range c {
			if w := c[i].word.Load(); w&slotHeld != 0 && w>>16 != uint64(base.SeqNumMax) {
				b.slots = append(b.slots, &c[i])
				b.words = append(b.words, w&(slotTicks|slotHeld))
			}
		}
	}
	return b
}

// Passed reports whether every reader of the barrier has ended. A slot that
// was taken anew has a later tick; after 32,768 turns the tick is the same
// again, which only means waiting longer.
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
