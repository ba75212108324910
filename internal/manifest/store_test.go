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

// The caller of a commit may recover from a panic in its file system. Another edit would leave a
// gap in the file, or follow a file that has a successor.
func TestAppend_ThatEndsInAPanicIsTheLast(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		for at, ended := 1, false; !ended; at++ {
			disk := newTestDisk(t)
			faults := faultfs.New(disk)
			s, next := fullStore(t, faults)
			if !full {
				must(t, s.Append(next())) // to a new file
			}
			calls := 0
			faults.Observe(func(op vfs.Op) {
				if calls++; calls == at {
					panic(op)
				}
			})
			func() {
				defer func() { ended = recover() == nil }()
				must(t, s.Append(next()))
			}()
			faults.Observe(nil)
			if err := s.Append(next()); (err == nil) != ended {
				t.Errorf("call %d of a full file %t: the next edit gets %v", at, full, err)
			}
			_ = s.Close()
			_, state, err := Load(disk, testDir, true, nil, nil)
			must(t, err)
			if state.NextFile < s.State().NextFile {
				t.Errorf("call %d of a full file %t: loaded %d, want %d", at, full, state.NextFile, s.State().NextFile)
			}
		}
	}
}
