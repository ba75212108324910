package collect

import (
	"bytes"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/testing/parts"
	"github.com/stoatdb/stoat/internal/work"
)

func TestHold_WaitsForReadersWhileNoCommitArrives(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		in   holdInputs
		want time.Duration
	}{
		{"commits arrive", holdInputs{work.Busy, false, true, false, 50 * time.Millisecond, 0}, 0},
		{"readers after a load", holdInputs{work.Pausing, false, true, false, 200 * time.Millisecond, 0}, holdEvery},
		{"readers at rest", holdInputs{work.Idle, false, true, false, 2 * time.Second, 0}, holdEvery},
		{"no readers", holdInputs{work.Idle, false, false, false, 2 * time.Second, 0}, 0},
		{"no readers in a pause", holdInputs{work.Pausing, false, false, false, 200 * time.Millisecond, 0}, 0},
		{"a gathering", holdInputs{work.Idle, false, false, true, 2 * time.Second, 0}, holdEvery},
		{"a gathering, later", holdInputs{work.Pausing, false, false, true, 200 * time.Millisecond, 0}, 0},
		{"a gathering that does not come", holdInputs{work.Idle, false, false, true, holdMax, 0}, 0},
		{"the disk is nearly full", holdInputs{work.Idle, true, true, false, 2 * time.Second, 0}, 0},
		{"the end is near", holdInputs{work.Idle, false, true, false, holdMax - time.Millisecond, 0}, time.Millisecond},
		{"it has waited since the last commit", holdInputs{work.Idle, false, true, false, 3 * time.Second, 2 * time.Second}, holdEvery},
		{"a commit came meanwhile", holdInputs{work.Pausing, false, true, false, 300 * time.Millisecond, time.Second}, 0},
		{"readers that go on and on", holdInputs{work.Idle, false, true, false, holdMax, 0}, 0},
	} {
		if got := decideHold(test.in); got != test.want {
			t.Errorf("%s: waits for %s, want %s", test.name, got, test.want)
		}
	}
}

func TestReadersSeen_ComparesWithAnEarlierLook(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	var r readersSeen
	for i, look := range []struct {
		begun uint64
		open  int
		now   int64
		want  bool
	}{
		{0, 0, second, false},
		{7, 0, 2 * second, true},
		{7, 0, 2*second + int64(holdEvery)/2, true}, // too soon to tell
		{7, 0, 3 * second, false},
		{7, 1, 4 * second, true}, // one reads for long
		{7, 0, 5 * second, false},
		{8, 0, 5*second + 1, false}, // too soon to tell
		{8, 0, 6 * second, true},
		{8, 0, 7 * second, false},
	} {
		if got := r.look(look.begun, look.open, look.now); got != look.want {
			t.Errorf("look %d: reading is %t, want %t", i, got, look.want)
		}
	}
}

// The collector itself holds files while it looks for what is live. That is no reader.
func TestCollector_WaitsForAReaderAndNotForItself(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 32<<20)
	e.leaveGarbage("key")
	e.collector.o.Quiet = func() time.Duration { return 2 * time.Second }
	e.collector.o.Load = func() (work.Load, time.Duration) { return work.Idle, 0 }
	step := func() (waits bool, collected int64) {
		t.Helper()
		before := e.collector.Counts.Collections.Load()
		e.collector.readers.at -= int64(holdEvery)
		again, err := e.collector.Step()
		e.Must(err)
		return again > 0, e.collector.Counts.Collections.Load() - before
	}
	slot, err := e.Store.Acquire()
	e.Must(err)
	if waits, collected := step(); !waits || collected > 0 {
		t.Errorf("beside a reader: waits %t, %d files collected", waits, collected)
	}
	// A file without live values needs no copy.
	e.update(func(tx transaction) { tx.set([]byte("dead"), bytes.Repeat([]byte{1}, parts.Threshold)) })
	e.Flush()
	e.update(func(tx transaction) { tx.delete([]byte("dead")) })
	e.Flush()
	e.sink()
	if waits, dropped := step(); !waits || dropped != 1 {
		t.Errorf("beside a reader and a dead file: waits %t, %d files collected", waits, dropped)
	}
	e.Store.Release(slot)
	slot, err = e.Store.Acquire()
	e.Must(err)
	e.Store.Release(slot)
	if waits, collected := step(); !waits || collected > 0 {
		t.Errorf("a reader has begun and ended: waits %t, %d files collected", waits, collected)
	}
	if waits, collected := step(); waits || collected == 0 {
		t.Errorf("no reader: waits %t, %d files collected", waits, collected)
	}
	e.leaveGarbage("other")
	step() // sees the commits
	for range 2 {
		slot, _, err := e.Store.HoldFiles()
		e.Must(err)
		e.Store.Release(slot)
	}
	if waits, _ := step(); waits {
		t.Error("a job that holds files counts as a reader")
	}
}
