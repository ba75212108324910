package log

import (
	"testing"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A faultyLog is a log on a disk whose calls can fail.
type faultyLog struct {
	t      *testing.T
	disk   *memfs.FS
	faults *faultfs.FS
	w      *Writer
}

// newFaultyLog creates a log whose segments have at most so many bytes.
func newFaultyLog(t *testing.T, sizeMax int64) *faultyLog {
	t.Helper()
	l := &faultyLog{t: t, disk: memfs.New()}
	l.faults = faultfs.New(l.disk)
	must(t, l.disk.MkdirAll("/db"))
	n := uint64(1)
	o := Options{FS: l.faults, Dir: "/db", Random: func() uint64 { n += 0x9e3779b97f4a7c15; return n },
		SegmentSizeMin: 64 << 10, SegmentSizeMax: sizeMax, Go: func(job func()) { job() }}
	r, err := recoverAll(o, nil, func([]byte) error { return nil })
	must(t, err)
	l.w, err = Create(o, r)
	must(t, err)
	return l
}

// put writes a record of 30 KiB, durably.
func (l *faultyLog) put() error {
	if err := l.w.Reserve(30 << 10); err != nil {
		return err
	}
	l.w.Begin()
	l.w.Write(make([]byte, 30<<10))
	l.w.End()
	if err := l.w.Flush(); err != nil {
		return err
	}
	return l.w.Sync()
}

// release frees all segments but the current one.
func (l *faultyLog) release() {
	l.t.Helper()
	must(l.t, l.w.Release(l.w.Current().Number))
}

// fail makes calls fail until faults are cleared.
func (l *faultyLog) fail(op vfs.OpKind, err error) {
	l.faults.Add(faultfs.Rule{Op: op, Category: vfs.CatLog, Err: err, Forever: true})
}

// files returns how many files there are.
func (l *faultyLog) files() int {
	l.t.Helper()
	names, err := l.disk.List("/db")
	must(l.t, err)
	return len(names)
}

// A process with too many open files cannot open a free segment. No such segment may stay
// until the next Open.
func TestWriter_ForgetsNoFreeSegmentThatItCannotOpen(t *testing.T) {
	t.Parallel()
	l := newFaultyLog(t, 64<<10)
	for range 20 {
		must(t, l.put())
		l.release()
	}
	before := l.files()
	for range 50 {
		l.fail(vfs.OpOpenReadWrite, vfs.ErrTooManyFiles)
		l.fail(vfs.OpCreate, vfs.ErrTooManyFiles)
		for i := 0; i < 5 && l.put() == nil; i++ {
		}
		l.faults.Clear()
		for range 6 {
			must(t, l.put())
			l.release()
		}
	}
	s := l.w.Stats()
	if after := l.files(); after > before+2 {
		t.Errorf("%d files have become %d, of which the log knows %d", before, after, s.Segments+s.FreeFiles)
	}
	must(t, l.w.Close())
}

// On a full disk, a segment takes any free file. One that cannot be opened must not stay there
// until the next Open: it takes the space that the disk lacks.
func TestWriter_ForgetsNoSmallFreeSegmentOnAFullDisk(t *testing.T) {
	t.Parallel()
	l := newFaultyLog(t, 1<<20)
	for range 100 { // the segments become large
		must(t, l.put())
	}
	l.release()
	l.fail(vfs.OpCreate, vfs.ErrNoSpace)
	l.fail(vfs.OpOpenReadWrite, vfs.ErrTooManyFiles)
	for i := 0; i < 100 && l.put() == nil; i++ {
	}
	l.faults.Clear()
	s := l.w.Stats()
	if now := l.files(); now != s.Segments+s.FreeFiles {
		t.Errorf("there are %d files, of which the log knows %d", now, s.Segments+s.FreeFiles)
	}
	must(t, l.w.Close())
}
