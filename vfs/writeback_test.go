package vfs

import (
	"fmt"
	"slices"
	"testing"
)

func TestWriteBackKeepsTwoStepsOnTheirWay(t *testing.T) {
	t.Parallel()
	faults := NewFaults(NewMem())
	f, err := faults.Create("/a", CatTable)
	must(t, err)
	var calls []string
	faults.Observe(func(op Op) { calls = append(calls, fmt.Sprint(op.Kind, " ", op.Off>>18, " ", op.Len>>18)) })
	w := NewWriteBack(f)
	for _, quarters := range []int64{2, 4, 5, 8, 20, 24} {
		must(t, w.Reached(quarters*writeBackStep/4))
	}
	w.Rewind(9 * writeBackStep / 4)
	must(t, w.Reached(14*writeBackStep/4))
	want := []string{
		"sync range 0 4", "wait for range 0 0",
		"sync range 4 4", "wait for range 0 4",
		"sync range 8 12", "wait for range 4 4",
		"sync range 20 4", "wait for range 8 12",
		"sync range 9 5", "wait for range 9 0",
	}
	if !slices.Equal(calls, want) {
		t.Fatalf("got %q, want %q", calls, want)
	}
}

func TestWriteBackReportsWhatNoSyncWill(t *testing.T) {
	t.Parallel()
	mem := NewMem()
	faults := NewFaults(mem)
	f, err := faults.Create("/a", CatTable)
	must(t, err)
	_, err = f.WriteAt([]byte("lost"), 0)
	must(t, err)
	faults.Add(Rule{Op: OpWaitRange, Sync: SyncDropped})
	w := NewWriteBack(f)
	wantIs(t, w.Reached(2*writeBackStep), ErrIO)
	must(t, f.SyncData())
	must(t, mem.SyncDir("/"))
	wantContents(t, fileContents(t, mem.Crash(CrashKeepNone, testRand(1)), "/a"), "")
}
