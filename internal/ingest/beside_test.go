package ingest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestBeside_WritesInOrderAndReusesTheCallersMemory(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	under, err := fs.Create("f", vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	f := beside(new(work.Executor), under)
	var want []byte
	for i := range 40 {
		part := bytes.Repeat([]byte{byte(i)}, 1+i*80_000)
		if _, err := f.WriteAt(part, int64(len(want))); err != nil {
			t.Fatal(err)
		}
		want = append(want, part...)
		clear(part)
		if err := errors.Join(f.SyncRange(0, 1), f.WaitRange(0, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.SyncData(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := under.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file differs, %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// An error of any call reaches the caller by SyncData, and no call hangs after it.
func TestBeside_TellsErrors(t *testing.T) {
	t.Parallel()
	for _, op := range []vfs.OpKind{vfs.OpWrite, vfs.OpSyncRange, vfs.OpSyncData} {
		fs := faultfs.New(memfs.New())
		under, err := fs.Create("f", vfs.CatTable)
		if err != nil {
			t.Fatal(err)
		}
		fs.Add(faultfs.Rule{Op: op, Nth: 1})
		f := beside(new(work.Executor), under)
		for i := range 20 {
			_, _ = f.WriteAt(make([]byte, 1<<20), int64(i)<<20)
			_ = f.SyncRange(0, 1)
		}
		if err := f.SyncData(); !errors.Is(err, faultfs.ErrInjected) {
			t.Errorf("%v: SyncData returns %v", op, err)
		}
		if err := f.Close(); !errors.Is(err, faultfs.ErrInjected) {
			t.Errorf("%v: Close returns %v", op, err)
		}
	}
}

// The goroutine that syncs tells the caller of the error itself, so the caller cannot be faster.
func TestBeside_SyncDataReturnsItsOwnErrorEachTime(t *testing.T) {
	t.Parallel()
	for i := range 2000 {
		fs := faultfs.New(memfs.New())
		under, err := fs.Create("f", vfs.CatTable)
		if err != nil {
			t.Fatal(err)
		}
		fs.Add(faultfs.Rule{Op: vfs.OpSyncData, Nth: 1})
		f := beside(new(work.Executor), under)
		if err := f.SyncData(); !errors.Is(err, faultfs.ErrInjected) {
			t.Fatalf("in round %d, SyncData returns %v", i, err)
		}
		_ = f.Close() // its error is that of the sync again
	}
}
