package manifest

import (
	"errors"
	"testing"
	"time"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
)

// soon calls fn, which must not wait for what the caller does.
func soon(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		fn()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Errorf("%s waits", what)
	}
}

func TestState_DoesNotWaitForTheDevice(t *testing.T) {
	t.Parallel()
	disk := newTestDisk(t)
	s, next := fullStore(t, disk)
	syncs := map[vfs.OpKind]int{}
	before := s.State().NextFile
	disk.SetHook(func(op vfs.Op) {
		if op.Kind != vfs.OpSyncData && op.Kind != vfs.OpSyncDir || t.Failed() {
			return
		}
		syncs[op.Kind]++
		soon(t, op.String(), func() {
			if state, err := s.State(), s.Err(); state.NextFile != before || err != nil {
				t.Errorf("%s: file %d, %v, want file %d", op, state.NextFile, err, before)
			}
		})
	})
	for range 3 { // the first one needs a new file
		must(t, s.Append(next()))
		if n := s.State().NextFile; n != before+1 {
			t.Errorf("after the edit: file %d, want %d", n, before+1)
		}
		before++
	}
	if syncs[vfs.OpSyncData] < 3 || syncs[vfs.OpSyncDir] == 0 {
		t.Errorf("%v", syncs)
	}
}

// A caller that finds the error must find the last state.
func TestErr_ComesAfterTheStateOfAnEditWhoseMarkFails(t *testing.T) {
	t.Parallel()
	faults := faultfs.New(newTestDisk(t))
	s, err := Create(faults, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	before := s.State().NextFile
	writes := 0
	faults.Observe(func(op vfs.Op) {
		if op.Kind != vfs.OpWrite {
			return
		}
		if writes++; writes == 2 && s.State().NextFile != before+1 {
			t.Error("the mark is written before the state is there")
		}
	})
	faults.Add(faultfs.Rule{Op: vfs.OpWrite, Nth: 2})
	must(t, s.Append(Edit{NextFile: Some(before + 1)}))
	if n := s.State().NextFile; n != before+1 || !errors.Is(s.Err(), faultfs.ErrInjected) {
		t.Errorf("file %d, %v", n, s.Err())
	}
	if err := s.Append(Edit{NextFile: Some(before + 2)}); !errors.Is(err, faultfs.ErrInjected) {
		t.Error(err)
	}
}
