package log

import (
	"errors"
	"io"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// verify verifies the log of d on the given disk.
func (d *workload) verify(disk vfs.FS) (int64, error) {
	o, spans := d.o, append([]base.LogSpan(nil), d.spans...)
	o.FS = disk
	last := &spans[len(spans)-1]
	*last = d.w.Proven(last.First)
	return Verify(o, spans, func() error { return nil })
}

func TestVerify_FindsWhatIsDurableAtAnyTime(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	check := func(what string) {
		t.Helper()
		// A power cut leaves at least what is proven.
		for _, disk := range []*memfs.FS{d.disk, d.disk.Crash(memfs.KeepNone, d.rng)} {
			n, err := d.verify(disk)
			if err != nil || int(n) < d.acked-d.first || int(n) > d.flushed-d.first {
				t.Fatalf("%s: %d transactions, want %d to %d: %v", what, n, d.acked-d.first, d.flushed-d.first, err)
			}
		}
	}
	d.open()
	for range 600 {
		d.step()
		check("between two steps")
	}
}

func TestVerify_ReportsEveryChangedByte(t *testing.T) {
	t.Parallel()
	d := newMarkedLog(t, 40)
	first, current, end := d.w.First().File, d.w.Current().File, d.w.Proven(d.w.First()).End
	if first == current {
		t.Fatal("the test is to rotate")
	}
	for file, end := range map[uint64]int64{first: record.Start + 2000, current: end} {
		for offset := int64(record.Start); offset < end; offset += int64(dose.Short(23, 3)) {
			if _, err := d.verify(d.flip(file, offset, 3)); !errors.Is(err, base.ErrCorrupt) {
				t.Fatalf("byte %d of file %d was changed: %v", offset, file, err)
			}
		}
	}
	if _, err := d.verify(d.flip(current, end, 3)); err != nil {
		t.Errorf("a byte behind the end was changed: %v", err)
	}
}

func TestVerify_ReturnsTheErrorOfPass(t *testing.T) {
	t.Parallel()
	d := newMarkedLog(t, 3)
	n, spans := 0, []base.LogSpan{d.w.Proven(d.w.First())}
	_, err := Verify(d.o, spans, func() error {
		if n++; n == 2 {
			return io.ErrClosedPipe
		}
		return nil
	})
	if !errors.Is(err, io.ErrClosedPipe) || n != 2 {
		t.Errorf("%v after %d transactions, want %v after 2", err, n, io.ErrClosedPipe)
	}
}

func TestHold_SegmentsStayUnchanged(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	fill := func(rotations int64) {
		for from := d.w.Stats().Rotations; d.w.Stats().Rotations < from+rotations; {
			d.append()
		}
		d.sync()
	}
	fill(3)
	span := d.w.Proven(d.w.First())
	letGo, second := d.w.Hold(), d.w.Hold()
	fill(1)
	must(t, d.w.Release(d.w.Segment()))
	for range 8 { // each iteration recycles free files
		fill(1)
		must(t, d.w.Release(d.w.Segment()))
		if _, err := Verify(d.o, []base.LogSpan{span}, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	must(t, letGo())
	if _, err := Verify(d.o, []base.LogSpan{span}, func() error { return nil }); err != nil {
		t.Fatalf("one of two has let go: %v", err)
	}
	must(t, second())
	if s := d.w.Stats(); s.FreeFiles > freeMax+1 {
		t.Errorf("%d files are kept without a hold", s.FreeFiles)
	}
	must(t, d.w.Close())
}
