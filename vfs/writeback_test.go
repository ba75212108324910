package vfs

import (
	"fmt"
	"slices"
	"testing"
)

// A rangeFile records the calls of SyncRange and WaitRange. WaitRange returns err.
type rangeFile struct {
	File
	calls []string
	err   error
}

func (f *rangeFile) SyncRange(off, n int64) error {
	f.calls = append(f.calls, fmt.Sprint("sync ", off>>18, " ", n>>18))
	return nil
}

func (f *rangeFile) WaitRange(off, n int64) error {
	f.calls = append(f.calls, fmt.Sprint("wait ", off>>18, " ", n>>18))
	return f.err
}

func TestWriteBack_KeepsTwoStepsUnderWay(t *testing.T) {
	t.Parallel()
	f := &rangeFile{}
	w := NewWriteBack(f)
	for _, quarters := range []int64{2, 4, 5, 8, 20, 24} {
		must(t, w.Reached(quarters*writeBackStep/4))
	}
	w.Rewind(9 * writeBackStep / 4)
	must(t, w.Reached(14*writeBackStep/4))
	want := []string{
		"sync 0 4", "wait 0 0",
		"sync 4 4", "wait 0 4",
		"sync 8 12", "wait 4 4",
		"sync 20 4", "wait 8 12",
		"sync 9 5", "wait 9 0",
	}
	if !slices.Equal(f.calls, want) {
		t.Fatalf("got %q, want %q", f.calls, want)
	}
}

// A sync after a failed WaitRange may succeed although data was lost. The error of
// WaitRange must therefore reach the caller.
func TestWriteBack_ReportsFailedWaits(t *testing.T) {
	t.Parallel()
	w := NewWriteBack(&rangeFile{err: ErrIO})
	wantIs(t, w.Reached(2*writeBackStep), ErrIO)
}
