package log

import (
	"testing"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// On a full disk, a segment takes any free file. One that cannot be opened must not stay there
// until the next Open: it takes the space that the disk lacks.
func TestWriter_ForgetsNoSmallFreeSegmentOnAFullDisk(t *testing.T) {
	disk := memfs.New()
	faults := faultfs.New(disk)
	if err := disk.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	n := uint64(1)
	o := Options{FS: faults, Dir: "/db", Random: func() uint64 { n += 0x9e3779b97f4a7c15; return n },
		SegmentSizeMin: 64 << 10, SegmentSizeMax: 1 << 20, Go: func(job func()) { job() }}
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
	for range 100 { // the segments become large
		if err := put(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Release(w.Current().Number); err != nil {
		t.Fatal(err)
	}
	faults.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatLog, Err: vfs.ErrNoSpace, Forever: true})
	faults.Add(faultfs.Rule{Op: vfs.OpOpenReadWrite, Category: vfs.CatLog, Err: vfs.ErrTooManyFiles, Forever: true})
	for range 100 {
		if err := put(); err != nil {
			break
		}
	}
	faults.Clear()
	s := w.Stats()
	if now := files(); now != s.Segments+s.FreeFiles {
		t.Errorf("there are %d files, of which the log knows %d", now, s.Segments+s.FreeFiles)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
