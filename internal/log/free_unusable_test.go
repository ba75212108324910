package log

import (
	"testing"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A process with too many open files cannot open a free segment. No such segment may stay
// until the next Open.
func TestWriter_ForgetsNoFreeSegmentThatItCannotOpen(t *testing.T) {
	disk := memfs.New()
	faults := faultfs.New(disk)
	if err := disk.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	n := uint64(1)
	o := Options{FS: faults, Dir: "/db", Random: func() uint64 { n += 0x9e3779b97f4a7c15; return n },
		SegmentSizeMin: 64 << 10, SegmentSizeMax: 64 << 10, Go: func(job func()) { job() }}
	r, err := Recover(o, nil, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	w, err := Create(o, r)
	if err != nil {
		t.Fatal(err)
	}
	files := func() int {
		names, err := disk.List("/db")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	put := func() error {
		if err := w.Reserve(30 << 10); err != nil {
			return err
		}
		w.Begin()
		w.Write(make([]byte, 30<<10))
		w.End()
		if err := w.Flush(); err != nil {
			return err
		}
		return w.Sync()
	}
	for range 20 {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if err := w.Release(w.Current().Number); err != nil {
			t.Fatal(err)
		}
	}
	before := files()
	for range 50 {
		faults.Add(faultfs.Rule{Op: vfs.OpOpenReadWrite, Category: vfs.CatLog, Err: vfs.ErrTooManyFiles, Forever: true})
		faults.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatLog, Err: vfs.ErrTooManyFiles, Forever: true})
		for i := 0; i < 5; i++ {
			if err := put(); err != nil {
				break
			}
		}
		faults.Clear()
		for range 6 {
			if err := put(); err != nil {
				t.Fatal(err)
			}
			if err := w.Release(w.Current().Number); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := w.Stats()
	if after := files(); after > before+2 {
		t.Errorf("%d files have become %d, of which the log knows %d", before, after, s.Segments+s.FreeFiles)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
