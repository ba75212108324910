package readers

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestOldest_IsTheOldestSnapshotInUse(t *testing.T) {
	t.Parallel()
	var visible atomic.Uint64
	visible.Store(10)
	r := NewRegistry[struct{}](true)
	if got := r.Oldest(&visible); got != 10 {
		t.Errorf("with no readers the oldest is %d, want the visible 10", got)
	}
	a := r.Acquire(&visible)
	visible.Store(20)
	b := r.Acquire(&visible)
	if a.Seq() != 10 || b.Seq() != 20 || r.Oldest(&visible) != 10 || r.Active() != 2 {
		t.Errorf("snapshots %d and %d, oldest %d, active %d", a.Seq(), b.Seq(), r.Oldest(&visible), r.Active())
	}
	a.Release()
	if got := r.Oldest(&visible); got != 20 {
		t.Errorf("after the first reader ended the oldest is %d, want 20", got)
	}
	b.Release()
}

func TestSnapshots_AreThoseInUseAndTheVisibleOne(t *testing.T) {
	t.Parallel()
	var visible atomic.Uint64
	r := NewRegistry[struct{}](true)
	var held []*Slot[struct{}]
	for _, at := range []uint64{5, 5, 9, 3, 12, 9} {
		visible.Store(at)
		held = append(held, r.Acquire(&visible))
	}
	visible.Store(9)
	if got, want := r.Snapshots(&visible), []base.SeqNum{3, 5, 9}; !slices.Equal(got, want) {
		t.Errorf("snapshots %d, want %d", got, want)
	}
	visible.Store(20)
	held[3].Release()
	if got, want := r.Snapshots(&visible), []base.SeqNum{5, 9, 12, 20}; !slices.Equal(got, want) {
		t.Errorf("snapshots %d, want %d", got, want)
	}
	for i, s := range held {
		if i != 3 {
			s.Release()
		}
	}
	if got, want := r.Snapshots(&visible), []base.SeqNum{20}; !slices.Equal(got, want) {
		t.Errorf("snapshots %d, want %d", got, want)
	}
}

func TestNoSnapshot_KeepsNoVersionAndNoBarrier(t *testing.T) {
	t.Parallel()
	var visible atomic.Uint64
	visible.Store(10)
	r := NewRegistry[struct{}](true)
	s := r.Acquire(r.NoSnapshot())
	for range 2 {
		visible.Add(10)
		if got, want := r.Snapshots(&visible), []base.SeqNum{base.SeqNum(visible.Load())}; !slices.Equal(got, want) || r.Oldest(&visible) != want[0] {
			t.Errorf("snapshots %d, the oldest %d, want %d", got, r.Oldest(&visible), want)
		}
	}
	if !r.Barrier().Passed() {
		t.Error("a barrier waits for a reader without a snapshot")
	}
	held := 0
	for other := range r.Held {
		if held++; other != s {
			t.Error("another slot is held")
		}
	}
	if held != 1 || r.Active() != 1 {
		t.Errorf("%d slots are held, %d active, want 1", held, r.Active())
	}
	s.Release()
}

func TestBegun_ChangesWithEachReaderAndCountsOpenOnesOfSnapshots(t *testing.T) {
	t.Parallel()
	r := NewRegistry[struct{}](false)
	var visible atomic.Uint64
	last, open := r.Begun()
	if open != 0 {
		t.Fatalf("%d readers in an empty registry", open)
	}
	changed := func() bool {
		begun, _ := r.Begun()
		defer func() { last = begun }()
		return begun != last
	}
	for range 3 {
		s := r.Acquire(&visible)
		if !changed() {
			t.Error("a reader has begun, and the number is the same")
		}
		if _, open := r.Begun(); open != 1 {
			t.Errorf("%d readers, want 1", open)
		}
		s.Release()
		if changed() {
			t.Error("a reader has ended, and the number is another")
		}
	}
	s := r.Acquire(r.NoSnapshot())
	if _, open := r.Begun(); open != 0 || !changed() {
		t.Errorf("%d readers of a snapshot, want none, and one that has begun", open)
	}
	s.Release()
}

func TestAcquire_MoreReadersThanSlots(t *testing.T) {
	t.Parallel()
	var visible atomic.Uint64
	r := NewRegistry[int](true)
	seen := map[*Slot[int]]bool{}
	for range 5 * chunkSlots {
		visible.Add(1)
		s := r.Acquire(&visible)
		if seen[s] {
			t.Fatal("a slot was given to two readers")
		}
		seen[s] = true
	}
	if r.Active() != 5*chunkSlots || r.Oldest(&visible) != 1 {
		t.Errorf("active %d, oldest %d", r.Active(), r.Oldest(&visible))
	}
	for s := range seen {
		s.Release()
	}
	if r.Active() != 0 {
		t.Errorf("%d slots still held", r.Active())
	}
}

func TestBarrier_PassesWhenItsReadersHaveEnded(t *testing.T) {
	t.Parallel()
	var visible atomic.Uint64
	r := NewRegistry[struct{}](true)
	a, b := r.Acquire(&visible), r.Acquire(&visible)
	barrier := r.Barrier()
	a.Release()
	if barrier.Passed() {
		t.Error("the barrier passed while a reader of it was reading")
	}
	late := r.Acquire(&visible) // likely the slot of a
	b.Release()
	if !barrier.Passed() {
		t.Error("the barrier waits for a reader that came later")
	}
	late.Release()
	if !r.Barrier().Passed() {
		t.Error("a barrier without readers did not pass")
	}
}

// raceRegistry takes and releases snapshots on several goroutines while the visible
// version grows. Meanwhile look runs again and again, and check on every snapshot.
func raceRegistry(readers, snapshots int, look func(*Registry[struct{}], *atomic.Uint64), check func(base.SeqNum) bool) {
	var visible atomic.Uint64
	r := NewRegistry[struct{}](true)
	var stop atomic.Bool
	var reading, moving sync.WaitGroup
	for range readers {
		reading.Go(func() {
			for range snapshots {
				s := r.Acquire(&visible)
				for range 3 {
					if !check(s.Seq()) {
						break
					}
				}
				s.Release()
			}
		})
	}
	moving.Go(func() {
		for !stop.Load() {
			visible.Add(1)
		}
	})
	moving.Go(func() {
		for !stop.Load() {
			look(r, &visible)
		}
	})
	reading.Wait()
	stop.Store(true)
	moving.Wait()
}

// A caller drops versions that no snapshot of the list shows. It must not drop
// what a reader sees: each reader's snapshot is in the list or beyond its last.
func TestRegistry_SnapshotsMissNoReader(t *testing.T) {
	t.Parallel()
	var list atomic.Pointer[[]base.SeqNum]
	list.Store(&[]base.SeqNum{0})
	look := func(r *Registry[struct{}], visible *atomic.Uint64) {
		l := r.Snapshots(visible)
		list.Store(&l)
	}
	raceRegistry(3, 10_000, look, func(seq base.SeqNum) bool {
		l := *list.Load()
		_, found := slices.BinarySearch(l, seq)
		if !found && seq < l[len(l)-1] {
			t.Errorf("snapshot %d is not in %d", seq, l)
			return false
		}
		return true
	})
}

// A snapshot must never be older than what Oldest returned before the reader
// took it. This makes dropping old versions safe.
func TestOldest_NeverOvertakesASnapshot(t *testing.T) {
	t.Parallel()
	var floor atomic.Uint64
	look := func(r *Registry[struct{}], visible *atomic.Uint64) { floor.Store(uint64(r.Oldest(visible))) }
	raceRegistry(4, 20_000, look, func(seq base.SeqNum) bool {
		if f := floor.Load(); base.SeqNum(f) > seq {
			t.Errorf("versions up to %d were given up while %d was read", f, seq)
			return false
		}
		return true
	})
}

// With all slots near its own taken, a reader must not look through those of readers that stay.
func TestAcquire_BeginsWhereASlotWasReleasedLast(t *testing.T) {
	t.Parallel()
	var visible atomic.Uint64
	r := NewRegistry[struct{}](false)
	var held []*Slot[struct{}]
	for range 200 * chunkSlots {
		held = append(held, r.Acquire(&visible))
	}
	early, late := held[3*chunkSlots], held[150*chunkSlots+9]
	early.Release()
	late.Release()
	for _, want := range []*Slot[struct{}]{late, early} {
		if s := r.Acquire(&visible); s != want {
			t.Error("another slot was taken")
		}
	}
	for _, s := range held {
		s.Release()
	}
	if n := r.Active(); n != 0 {
		t.Errorf("%d slots still held", n)
	}
}

func TestAcquire_ReadersThatMeetBesideHeldSlotsGetDifferentOnes(t *testing.T) {
	t.Parallel()
	var visible atomic.Uint64
	r := NewRegistry[atomic.Int32](true)
	const held = 10*chunkSlots + 5
	for range held {
		r.Acquire(&visible)
	}
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 3_000 {
				a, b := r.Acquire(&visible), r.Acquire(&visible)
				if a.Data.Add(1) != 1 || b.Data.Add(1) != 1 {
					t.Error("a slot was given to two readers")
				}
				a.Data.Add(-1)
				b.Data.Add(-1)
				a.Release()
				b.Release()
			}
		})
	}
	readers.Wait()
	if n := r.Active(); n != held {
		t.Errorf("%d slots are held, want %d", n, held)
	}
	if n := len(*r.chunks.Load()); n > 12 {
		t.Errorf("%d chunks", n)
	}
}

func BenchmarkAcquireRelease_BesideHeldSlots(b *testing.B) {
	for _, held := range []int{0, 100, 10_000} {
		b.Run(strconv.Itoa(held), func(b *testing.B) {
			var visible atomic.Uint64
			r := NewRegistry[[200]byte](true)
			for range held {
				r.Acquire(&visible)
			}
			for b.Loop() {
				r.Acquire(&visible).Release()
			}
		})
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	var visible atomic.Uint64
	r := NewRegistry[[200]byte](true)
	b.ReportAllocs()
	for b.Loop() {
		r.Acquire(&visible).Release()
	}
}
