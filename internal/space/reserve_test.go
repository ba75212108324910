package space

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// newReserve returns the reserve of an empty database on a disk of so many bytes.
// compact is called to wake the compactor.
func newReserve(t *testing.T, capacity int64, compact func()) (*Reserve, *memfs.FS) {
	t.Helper()
	disk := memfs.New()
	if err := disk.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	disk.SetCapacity(capacity)
	return New(Options{
		FS: disk, Dir: "/db", SegmentBytes: 32 << 10, TableSize: 1 << 20,
		Group: work.NewGroup(&work.Executor{Manual: true}), Report: func(any) {},
		MemtableBytes: func() int64 { return 0 },
		Flush:         func() {}, Compact: compact, Collect: func() {},
	}), disk
}

func TestReserve_AMergeThatFoundNoRoomIsTriedAgainWhenThereIsSome(t *testing.T) {
	t.Parallel()
	woken := 0
	r, disk := newReserve(t, 1<<30, func() { woken++ })
	r.Look()
	r.MergeEnded(1, vfs.ErrNoSpace)
	for _, some := range []int64{1, 2} {
		woken = 0
		disk.SetCapacity(some << 30)
		r.Look()
		if told := woken > 0; told != (some > 1) {
			t.Errorf("the disk is %d times as large: the compactor is woken: %t", some, told)
		}
	}
}

// Where a quota is full, the free bytes do not tell when it has room again.
func TestReserve_AMergeThatFoundNoRoomIsTriedAgainInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := newReserve(t, 1<<20, func() {})
		most := func() int64 {
			r.Look()
			_, output := r.Merge()
			return output
		}
		free := most()
		r.MergeEnded(8000, vfs.ErrNoSpace)
		if n := most(); n != 6000 || !r.Lacking() {
			t.Errorf("after a merge of 8000 bytes has failed, one may write %d", n)
		}
		time.Sleep(RetryMax)
		if n := most(); n != free || r.shortMerge.Load() != nil {
			t.Errorf("an hour later one may write %d, want %d", n, free)
		}
	})
}

// Otherwise jobs would try again and again what failed on a wholly full disk.
func TestMuchMore_NothingIsMuchMoreThanItself(t *testing.T) {
	t.Parallel()
	for _, free := range []int64{0, 1, 7, 1 << 20} {
		if MuchMore(free, free) {
			t.Errorf("%d bytes are much more than as many", free)
		}
	}
}

func TestReserve_ATransactionWaitsForWhatAnotherMayNotNeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, returned := range []bool{true, false} {
			r, _ := newReserve(t, 1<<20, func() {})
			group := work.NewGroup(&work.Executor{})
			r.o.Group = group
			const most = 600 << 10
			if err := r.Admit(t.Context(), most); err != nil {
				t.Fatal(err)
			}
			r.resting.Store(uint32(allJobs))
			r.o.Flush = func() { r.resting.Store(uint32(allJobs)) } // as jobs that find nothing to do
			if returned {
				time.AfterFunc(20*time.Millisecond, func() { r.Taken(most) })
			}
			if err := r.Admit(t.Context(), most); (err == nil) != returned {
				t.Errorf("the first transaction returns its promise: %t; the second gets %v", returned, err)
			}
			group.End()
		}
	})
}

func TestReserve_AJobUnderWayMayFreeSpace(t *testing.T) {
	t.Parallel()
	r, _ := newReserve(t, 1<<20, func() {})
	r.o.Group = work.NewGroup(&work.Executor{})
	defer r.o.Group.End()
	end := r.Step()
	r.resting.Store(uint32(allJobs))
	if !r.working() {
		t.Error("a transaction does not wait for a job that began after it had rested")
	}
	if end(); r.working() {
		t.Error("a transaction waits for jobs that rest")
	}
}

// Others lose what is kept for them. So that must be of use.
func TestReserve_HelpsOnlyWhoCanThenGoOn(t *testing.T) {
	t.Parallel()
	r, disk := newReserve(t, 1<<20, func() {})
	r.Look()
	spare := r.Spare()
	freed := func(bytes int64) func() int64 { return func() int64 { return bytes } }
	helps := func(want bool, bytes int64, when string) {
		t.Helper()
		if r.Helps(freed(bytes)) != want {
			t.Errorf("%s: %d free bytes more help: %t", when, bytes, !want)
		}
	}
	helps(false, 1<<20, "nothing waits")
	r.beginWait(spare + 1000)
	helps(false, 999, "a transaction waits")
	helps(true, 1000, "a transaction waits")
	r.beginWait(spare + 10)
	helps(false, 9, "a smaller one waits, too")
	helps(true, 10, "a smaller one waits, too")
	r.promised.Add(spare)
	helps(false, 9, "a third one has a promise")
	r.endWait(spare + 10)
	helps(false, 999, "the smaller one waits no more")
	r.endWait(spare + 1000)
	helps(false, 1<<20, "nothing waits any more")
	disk.SetCapacity(1 << 10)
	r.Look()
	helps(true, 0, "the disk is low")
}

// So it is with quotas, of which the free bytes of the system say nothing.
func TestReserve_AWriteThatFindsNoSpaceMakesItScarceForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		woken := 0
		r, _ := newReserve(t, 1<<20, func() { woken++ })
		for range 2 {
			r.WriteFailed(vfs.ErrNoSpace)
			if !r.Scarce() || !r.Helps(func() int64 { return 0 }) || woken != 1 {
				t.Errorf("space is scarce: %t, and the compactor was woken %d times", r.Scarce(), woken)
			}
		}
		if time.Sleep(fullFor); r.Scarce() {
			t.Error("space is scarce for ever")
		}
	})
}
