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
