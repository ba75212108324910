package manifest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A history is the part of a manifest's past to which a crash may return.
type history struct {
	t    *testing.T
	disk *memfs.FS
	// durable is the certain state, and next the result of an Append in
	// progress. created is false until the first state is certain.
	created       bool
	durable, next State
}

// inspect reads the manifest of a disk after a crash.
func (h *history) inspect(disk *memfs.FS, what string) {
	h.t.Helper()
	_, got, err := Load(disk, testDir, true, nil, nil)
	h.checkState(got, err, what)
}

// checkState checks what Load returned. It reports false if there is no
// manifest and none is required.
func (h *history) checkState(got State, err error, what string) bool {
	h.t.Helper()
	if !h.created && errors.Is(err, vfs.ErrNotExist) {
		return false
	}
	if err != nil {
		h.t.Fatalf("%s: %v", what, err)
	}
	if !(h.created && same(got, h.durable)) && !same(got, h.next) {
		h.t.Fatalf("%s: %+v, want %+v or %+v", what, got, h.durable, h.next)
	}
	return true
}

// check loads the manifest of a disk after a crash and returns its state. If the
// crash was in Create, it creates the manifest.
func (h *history) check(disk *memfs.FS, what string) (State, bool) {
	h.t.Helper()
	s, got, err := Load(disk, testDir, false, testRandom(3), nil)
	if !h.checkState(got, err, what) {
		if s, err = Create(disk, testDir, h.next, testRandom(4), nil); err != nil {
			h.t.Fatalf("%s: Create after a crash in Create: %v", what, err)
		}
		must(h.t, s.Close())
		return State{}, false
	}
	must(h.t, s.Close())
	return got, true
}

// goOn appends to the loaded manifest and loads it again.
func goOn(t *testing.T, disk *memfs.FS, s *Store, loaded State, what string) {
	t.Helper()
	clock := loaded.ClockHighMs + 1
	must(t, s.Append(Edit{ClockHighMs: Some(clock)}))
	must(t, s.Close())
	_, got, err := Load(disk, testDir, true, nil, nil)
	if err != nil || got.ClockHighMs != clock {
		t.Fatalf("%s, then an edit: clock %d, want %d: %v", what, got.ClockHighMs, clock, err)
	}
}

// manyFrames is a number of spans for which an edit takes several frames.
const manyFrames = 40_000

// A kill or a power cut may come in the middle of a write. The rest of the file
// is then zeros.
func TestCrash_CutOffEditOfManyFramesIsAbsent(t *testing.T) {
	t.Parallel()
	disk := newTestDisk(t)
	s, err := Create(disk, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 6))
	must(t, s.Append(Edit{Spans: Some(testSpans(rng, manyFrames))})) // a takeover makes a file with room
	must(t, s.Append(Edit{ClockHighMs: Some(uint64(7))}))
	want, number, from := s.State(), s.mu.file.number, s.mu.file.b.Offset()
	e := Edit{Spans: Some(testSpans(rng, manyFrames))}
	h := &history{t: t, disk: disk, created: true, durable: want}
	h.next, err = want.Apply(e)
	must(t, err)
	kinds := memfs.CrashKinds()
	disk.SetHook(func(op vfs.Op) {
		for range dose.Short(1, 6) {
			kind := kinds[rng.IntN(len(kinds))]
			crashed, what := disk.Crash(kind, rng), fmt.Sprintf("before %s, %s", op, kind)
			s, got, err := Load(crashed, testDir, false, testRandom(2), nil)
			h.checkState(got, err, what)
			goOn(t, crashed, s, got, what)
		}
	})
	must(t, s.Append(e))
	disk.SetHook(nil)
	if s.mu.file.number != number {
		t.Fatal("the edit did not fit the file")
	}
	until := s.mu.file.durable
	must(t, s.mu.file.file.Close())
	if until-from <= record.FrameSize(record.MaxPayload) {
		t.Fatalf("an edit of %d bytes is one frame", until-from)
	}
	first := from + record.FrameSize(record.MaxPayload)
	for _, at := range []int64{from, from + 1, from + 4096, first - 1, first, first + 1, first + record.FrameHeaderSize, until - 64} {
		cut := disk.Clone()
		f, err := cut.OpenReadWrite(s.path(number), vfs.CatManifest)
		must(t, err)
		_, err = f.WriteAt(make([]byte, s.mu.file.size-at), at)
		must(t, err)
		must(t, f.Close())
		what := fmt.Sprintf("cut %d bytes behind the start", at-from)
		s, got, err := Load(cut, testDir, false, testRandom(2), nil)
		if err != nil || !same(got, want) {
			t.Fatalf("%s: another state: %v", what, err)
		}
		goOn(t, cut, s, got, what)
	}
}

// run makes a manifest and appends to it while more returns true. It loads the
// manifest again now and then.
func (h *history) run(seed uint64, more func() bool) {
	rng := rand.New(rand.NewPCG(seed, 1))
	h.next = firstState()
	s, err := Create(h.disk, testDir, h.next, testRandom(seed), nil)
	must(h.t, err)
	h.durable, h.created = h.next, true
	for i := 0; i < 40 && more(); i++ {
		e := testEdit(rng, h.durable)
		h.next, err = h.durable.Apply(e)
		must(h.t, err)
		must(h.t, s.Append(e))
		h.durable = h.next
		switch rng.IntN(8) {
		case 0:
			must(h.t, s.Close())
			fallthrough
		case 1:
			if s, _, err = Load(h.disk, testDir, false, testRandom(rng.Uint64()), nil); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	must(h.t, s.Close())
}

func TestCrash_AtAnyBoundaryLosesNoEdit(t *testing.T) {
	t.Parallel()
	seed, wanted := dose.Seed(t), dose.Size(t, dose.States, 1000, 5000)
	for states := 0; states < wanted; seed++ {
		h := &history{t: t, disk: newTestDisk(t)}
		crash := rand.New(rand.NewPCG(seed, 2))
		boundary := 0
		h.disk.SetHook(func(op vfs.Op) {
			boundary++
			for _, kind := range memfs.CrashKinds() {
				states++
				h.inspect(h.disk.Crash(kind, crash), fmt.Sprintf("boundary %d, before %s, %s", boundary, op, kind))
			}
		})
		h.run(seed, func() bool { return states < wanted })
		h.disk.SetHook(nil)
	}
}

func TestCrash_AfterLoadLosesNothingLoaded(t *testing.T) {
	t.Parallel()
	seed, wanted, states := dose.Seed(t), dose.Size(t, dose.States, 20, 300), 0
	h := &history{t: t, disk: newTestDisk(t)}
	crash := rand.New(rand.NewPCG(seed, 3))
	kinds := memfs.CrashKinds()
	kind := func() memfs.CrashKind { return kinds[crash.IntN(len(kinds))] }
	h.disk.SetHook(func(op vfs.Op) {
		// A killed process leaves what it wrote; a power cut does not.
		for _, disk := range []*memfs.FS{h.disk.Clone(), h.disk.Crash(kind(), crash)} {
			disk.SetHook(func(op vfs.Op) {
				h.check(disk.Crash(kind(), crash), "crash in Load, before "+op.String())
			})
			got, loaded := h.check(disk, "before "+op.String())
			disk.SetHook(nil)
			states++
			if !loaded {
				continue
			}
			disk = disk.Crash(kind(), crash)
			s, again, err := Load(disk, testDir, false, testRandom(5), nil)
			if err != nil || !same(got, again) {
				t.Fatalf("before %s: loaded %+v, after another crash %+v: %v", op, got, again, err)
			}
			goOn(t, disk, s, again, "before "+op.String())
		}
	})
	h.run(seed, func() bool { return states < wanted })
	h.disk.SetHook(nil)
}

func TestFaults_AnyCallLosesNoEdit(t *testing.T) {
	t.Parallel()
	run := func(rule faultfs.Rule, what string) int64 {
		disk := newTestDisk(t)
		faults := faultfs.New(disk)
		faults.Add(rule)
		h := &history{t: t, disk: disk, next: firstState()}
		h.runWithFaults(faults, what)
		faults.Clear()
		rng := rand.New(rand.NewPCG(uint64(rule.Nth), 4))
		for range 3 {
			kinds := memfs.CrashKinds()
			h.check(disk.Crash(kinds[rng.IntN(len(kinds))], rng), what+", then a crash")
		}
		got, loaded := h.check(disk, what+", then a restart")
		if !loaded {
			return faults.Calls()
		}
		_, again, err := Load(disk.Crash(memfs.KeepNone, rng), testDir, false, testRandom(5), nil)
		if err != nil || !same(got, again) {
			t.Fatalf("%s: loaded %+v, after a crash %+v: %v", what, got, again, err)
		}
		return faults.Calls()
	}
	// With -stoat.states=-1 every call fails in every way.
	every := max(1, int64(dose.Size(t, dose.States, 40, 6)))
	calls := run(faultfs.Rule{Nth: 1 << 40}, "no fault")
	for i, rule := range []faultfs.Rule{
		{Sync: vfs.SyncDropped}, {Sync: vfs.SyncHalf}, {Sync: vfs.SyncKept}, {Sync: vfs.SyncNotTried},
		{Done: true}, {Partial: 100}, {Err: vfs.ErrNoSpace}, {Sync: vfs.SyncDropped, Forever: true},
	} {
		for n := int64(1); n <= calls; n++ {
			if (n+int64(i))%every != 0 {
				continue
			}
			rule.Nth, rule.Seed = n, uint64(n)
			run(rule, fmt.Sprintf("rule %d, call %d", i, n))
		}
	}
}

// runWithFaults makes a manifest and appends to it until an error.
func (h *history) runWithFaults(fs *faultfs.FS, what string) {
	h.t.Helper()
	rng := rand.New(rand.NewPCG(1, 5))
	s, err := Create(fs, testDir, h.next, testRandom(1), nil)
	if err != nil {
		return
	}
	h.durable, h.created = h.next, true
	for i := range 25 {
		e := testEdit(rng, h.durable)
		if i%2 == 0 {
			e.Spans = Some(testSpans(rng, 400))
		}
		if h.next, err = h.durable.Apply(e); err != nil {
			h.t.Fatal(err)
		}
		if err := s.Append(e); err != nil {
			if !errors.Is(err, faultfs.ErrInjected) {
				h.t.Fatalf("%s: %v", what, err)
			}
			if again := s.Append(e); again != nil && !errors.Is(again, faultfs.ErrInjected) {
				h.t.Fatalf("%s: after %v: %v", what, err, again)
			} else if again != nil {
				return // the fault poisoned it, or is still there
			}
		}
		h.durable = h.next
		if failed, _ := fs.Failed(); failed > 0 {
			h.inspect(h.disk.Crash(memfs.KeepNone, nil), fmt.Sprintf("%s, then edit %d and a power cut", what, i))
		}
		if i%9 == 8 {
			if err := s.Close(); err != nil && !errors.Is(err, faultfs.ErrInjected) {
				h.t.Fatalf("%s: %v", what, err)
			}
			if s, _, err = Load(fs, testDir, false, testRandom(2), nil); err != nil {
				return
			}
		}
	}
}

// The system takes what a failed sync has lost for written, so later syncs skip it.
func TestClose_WhoseSyncFailsLosesNoLaterEdit(t *testing.T) {
	t.Parallel()
	for _, fate := range []vfs.SyncFate{vfs.SyncDropped, vfs.SyncHalf} {
		disk := newTestDisk(t)
		faults := faultfs.New(disk)
		s, err := Create(faults, testDir, firstState(), testRandom(1), nil)
		must(t, err)
		next := func() Edit { return Edit{NextFile: Some(s.State().NextFile + 1)} }
		must(t, s.Append(next()))
		faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Sync: fate})
		if err := s.Close(); !errors.Is(err, faultfs.ErrInjected) {
			t.Fatalf("fate %d: Close returned %v", fate, err)
		}
		s, _, err = Load(faults, testDir, false, testRandom(2), nil)
		must(t, err)
		for range 2 {
			must(t, s.Append(next()))
			wantLoaded(t, disk, s)
		}
		must(t, s.Close())
		wantLoaded(t, disk, s)
	}
}

// Load cannot write a new file. The caller of Load may delete files by the state all the same.
func TestDiskFull_LoadKeepsAnEditWhoseSyncFailed(t *testing.T) {
	t.Parallel()
	for _, fate := range []vfs.SyncFate{vfs.SyncDropped, vfs.SyncHalf} {
		disk := newTestDisk(t)
		faults := faultfs.New(disk)
		s, err := Create(faults, testDir, firstState(), testRandom(1), nil)
		must(t, err)
		must(t, s.Append(Edit{NextFile: Some(uint64(7))}))
		faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Sync: fate})
		spans := testSpans(rand.New(rand.NewPCG(1, 7)), 400) // several pages
		if err := s.Append(Edit{Spans: Some(spans)}); !errors.Is(err, faultfs.ErrInjected) {
			t.Fatalf("fate %d: Append returned %v", fate, err)
		}
		_ = s.Close() // it repeats the error
		disk.SetCapacity(disk.UsedBytes())

		// A file system that never overwrites blocks has no space for that.
		refused := faults.Add(faultfs.Rule{Op: vfs.OpWrite, Path: FileName(1), Err: vfs.ErrNoSpace, Forever: true})
		if _, _, err := Load(faults, testDir, false, testRandom(2), nil); !errors.Is(err, vfs.ErrNoSpace) || refused.Fired() == 0 {
			t.Errorf("fate %d: Load returned %v after %d failed writes", fate, err, refused.Fired())
		}
		faults.Clear()

		s, state, err := Load(faults, testDir, false, testRandom(2), nil)
		must(t, err)
		if len(state.Spans) != len(spans) || !s.mu.renew {
			t.Fatalf("fate %d: loaded %d spans of %d; renew %t", fate, len(state.Spans), len(spans), s.mu.renew)
		}
		for _, kind := range []memfs.CrashKind{memfs.KeepNone, memfs.KeepAll} {
			_, after, err := Load(disk.Crash(kind, nil), testDir, true, nil, nil)
			if err != nil || !same(after, state) {
				t.Errorf("fate %d: after a power cut (%s) %d spans of %d: %v", fate, kind, len(after.Spans), len(spans), err)
			}
		}
		must(t, s.Close())
	}
}
