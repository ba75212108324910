package log

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// newMarkedLog writes n transactions, syncs and marks the log.
func newMarkedLog(t *testing.T, n int) *workload {
	t.Helper()
	d := newWorkload(t, 1)
	d.open()
	for range n {
		d.append()
	}
	d.sync()
	must(t, d.w.Mark())
	return d
}

// change changes a file in a copy of the disk.
func (d *workload) change(file uint64, do func(f vfs.File)) *memfs.FS {
	d.t.Helper()
	disk := d.disk.Clone()
	f, err := disk.OpenReadWrite(d.o.path(file), vfs.CatLog)
	must(d.t, err)
	do(f)
	must(d.t, f.Close())
	return disk
}

// flip returns the disk with a bit of a file flipped.
func (d *workload) flip(file uint64, offset int64, bit int) *memfs.FS {
	return d.change(file, func(f vfs.File) {
		var b [1]byte
		_, err := f.ReadAt(b[:], offset)
		must(d.t, err)
		b[0] ^= 1 << bit
		_, err = f.WriteAt(b[:], offset)
		must(d.t, err)
	})
}

func TestMark_DamageToTheLastTransactionIsReported(t *testing.T) {
	t.Parallel()
	d := newMarkedLog(t, 1)
	for n := 1; n <= 3; n++ {
		last, mark := d.w.end.offset, d.w.b.Offset()
		for offset := int64(record.Start); offset < mark; offset++ {
			disk := d.flip(d.w.Current().File, offset, int(offset%8))
			if _, _, err := d.recovered(disk, d.spans); offset < last && !errors.Is(err, base.ErrCorrupt) {
				t.Fatalf("byte %d of %d transactions that end at %d was changed: %v", offset, n, last, err)
			}
			if offset >= last {
				d.checkCrash(disk, "a mark that is damaged")
			}
		}
		d.append()
		d.sync()
		must(t, d.w.Mark())
	}
}

func TestMark_TornMarkIsIgnored(t *testing.T) {
	t.Parallel()
	d := newMarkedLog(t, 3)
	for n := range record.FrameHeaderSize {
		disk := d.change(d.w.Current().File, func(f vfs.File) {
			_, err := f.WriteAt(make([]byte, record.FrameHeaderSize-n), d.w.end.offset+int64(n))
			must(t, err)
		})
		d.checkCrash(disk, "a torn mark")
	}
}

// The Next frame says how far the segment was durable before the rotation, not
// what the rotation's own sync made durable.
func TestMark_InEmptySegmentProvesTheOneBefore(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	for d.w.mu.seg.size == d.o.SegmentSizeMin {
		d.append()
	}
	d.append()
	left, last := d.w.Current(), d.w.end.offset
	must(t, d.w.Shrink())
	if d.w.Current() == left {
		t.Fatal("the test is to leave the segment")
	}
	d.acked, d.flushed = d.built, d.built
	must(t, d.w.Mark())
	d.checkCrash(d.disk.Clone(), "an empty segment")
	disk := d.flip(left.File, last-record.FrameHeaderSize, 0)
	if _, _, err := d.recovered(disk, d.spans); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("the last transaction was changed: %v", err)
	}
}

func TestMark_ClaimsOnlySyncedData(t *testing.T) {
	t.Parallel()
	d := newMarkedLog(t, 2)
	d.append()
	must(t, d.w.Flush())
	d.flushed = d.built
	written := d.w.Stats().BytesWritten
	must(t, d.w.Mark())
	if n := d.w.Stats().BytesWritten - written; n != 0 {
		t.Errorf("%d bytes were written to mark unsynced data", n)
	}
	if n := d.checkCrash(d.flip(d.w.Current().File, d.w.end.offset-1, 0), "damage to what was not synced"); n != 2 {
		t.Errorf("%d transactions, want 2", n)
	}
}

func TestMark_SyncDoesNotWaitForIt(t *testing.T) {
	t.Parallel()
	d := newMarkedLog(t, 2)
	before := d.w.Stats()
	for range 3 {
		must(t, d.w.Sync())
		must(t, d.w.Mark())
	}
	if after := d.w.Stats(); after != before {
		t.Errorf("%+v after syncs of a log that is synced and marked, before %+v", after, before)
	}
}

// Behind the last transaction, a segment has room for a mark and then for its
// closing frames.
func TestMark_FullSegmentHasRoom(t *testing.T) {
	t.Parallel()
	for room := range int64(12) {
		d := newWorkload(t, 1)
		d.o.FrameSizeMax = 0
		d.open()
		n := d.w.limit - d.w.b.Offset() - record.FrameHeaderSize - 8*room
		first := d.w.Segment()
		must(t, appendTx(d.w, make([]byte, n)))
		for range 2 {
			must(t, d.w.Flush())
			must(t, d.w.Sync())
			must(t, d.w.Mark())
		}
		if d.w.Segment() != first {
			t.Fatal("the test is to fill the first segment")
		}
		if room%2 == 0 {
			must(t, appendTx(d.w, make([]byte, 100)))
		}
		must(t, d.w.Close())
		r, err := recoverAll(d.o, d.spans, func([]byte) error { return nil })
		if want := 1 + (room+1)%2; err != nil || r.Records != want || r.Unproven() {
			t.Errorf("room for %d bytes: %d transactions, want %d: %v", 8*room, r.Records, want, err)
		}
	}
}

// Recovery carries what is not proven. Marked transactions are proven, even if
// the mark is only in the system's memory.
func TestMark_NothingToCarry(t *testing.T) {
	t.Parallel()
	d := newMarkedLog(t, 3)
	_, r, err := d.recovered(d.disk.Clone(), d.spans)
	if err != nil || r.Unproven() {
		t.Errorf("something is unproven: %v", err)
	}
	_, r, err = d.recovered(d.disk.Crash(memfs.KeepNone, d.rng), d.spans)
	if err != nil || !r.Unproven() {
		t.Errorf("nothing is unproven where the power cut took the mark: %v", err)
	}
}

func TestMark_FailedWriteGoesWithTheNextTransaction(t *testing.T) {
	t.Parallel()
	disk := newTestDisk(t)
	faults := faultfs.New(disk)
	o := testOptions(faults, 1)
	w, spans, err := open(o, nil, nil)
	must(t, err)
	commit := func(i int) {
		t.Helper()
		must(t, appendTx(w, testPayload(i)))
		must(t, w.Flush())
		must(t, w.Sync())
	}
	commit(0)
	faults.Add(faultfs.Rule{Op: vfs.OpWrite, Partial: 10})
	if err := w.Mark(); !errors.Is(err, faultfs.ErrInjected) {
		t.Fatalf("%v, want %v", err, faultfs.ErrInjected)
	}
	faults.Clear()
	for i := 1; i < 3; i++ {
		commit(i)
		next := 0
		if _, err := recoverAll(o, spans, collect(&next)); err != nil || next != i+1 {
			t.Fatalf("%d transactions, want %d: %v", next, i+1, err)
		}
	}
	must(t, w.Close())
}
