package manifest

import (
	"errors"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// fullStore returns a store whose next edit needs a new file.
func fullStore(t *testing.T, fs vfs.FS) (s *Store, next func() Edit) {
	t.Helper()
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	next = func() Edit { return Edit{NextFile: Some(s.State().NextFile + 1)} }
	for s.mu.file.fits(len(next().AppendTo(nil))) {
		must(t, s.Append(next()))
	}
	return s, next
}

// wantLoaded checks that the state of s is durable.
func wantLoaded(t *testing.T, disk *memfs.FS, s *Store) {
	t.Helper()
	_, state, err := Load(disk.Crash(memfs.KeepNone, nil), testDir, true, nil, nil)
	must(t, err)
	if got, want := state.NextFile, s.State().NextFile; got != want {
		t.Errorf("loaded %d, want %d", got, want)
	}
}

func TestTakeover_WithoutADescriptorForTheDirectoryGoesOn(t *testing.T) {
	t.Parallel()
	disk := newTestDisk(t)
	faults := faultfs.New(disk)
	s, next := fullStore(t, faults)
	closed := false
	faults.Observe(func(op vfs.Op) { closed = closed || op.Kind == vfs.OpClose })
	rule := faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Err: vfs.ErrTooManyFiles, Sync: vfs.SyncNotTried})
	must(t, s.Append(next()))
	if rule.Fired() != 1 || !closed {
		t.Errorf("%d failed calls, the old manifest was closed: %t", rule.Fired(), closed)
	}
	wantLoaded(t, disk, s)
	must(t, s.Append(next()))
	must(t, s.Close())
	wantLoaded(t, disk, s)
}

func TestTakeover_WithoutADescriptorTwiceFailsForGood(t *testing.T) {
	t.Parallel()
	faults := faultfs.New(newTestDisk(t))
	s, next := fullStore(t, faults)
	faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Err: vfs.ErrTooManyFiles, Sync: vfs.SyncNotTried, Forever: true})
	for range 2 {
		if err := s.Append(next()); !errors.Is(err, vfs.ErrTooManyFiles) {
			t.Error(err)
		}
	}
	must(t, s.Verify())
	if err := s.Close(); !errors.Is(err, vfs.ErrTooManyFiles) {
		t.Error(err)
	}
}

func TestTakeover_RenameWithoutSpaceChangesNothing(t *testing.T) {
	t.Parallel()
	disk := newTestDisk(t)
	faults := faultfs.New(disk)
	s, next := fullStore(t, faults)
	faults.Add(faultfs.Rule{Op: vfs.OpRename, Err: vfs.ErrNoSpace})
	if err := s.Append(next()); !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatal(err)
	}
	must(t, s.Err())
	names, err := disk.List(testDir)
	must(t, err)
	if all := strings.Join(names, " "); strings.Contains(all, tempSuffix) {
		t.Errorf("the temporary file is still there: %s", all)
	}
	wantLoaded(t, disk, s)
	must(t, s.Append(next()))
	must(t, s.Close())
	wantLoaded(t, disk, s)
}

// If the file has its final name after all, a later Load would take it for the newest.
func TestTakeover_RenameWithoutSpaceThatMayHaveHappenedFailsForGood(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]faultfs.Rule{
		"it happened":                    {{Op: vfs.OpRename, Err: vfs.ErrNoSpace, Done: true}},
		"the file cannot be removed":     {{Op: vfs.OpRename, Err: vfs.ErrNoSpace}, {Op: vfs.OpRemove, Path: tempSuffix, Nth: 2}},
		"the final name cannot be found": {{Op: vfs.OpRename, Err: vfs.ErrNoSpace}, {Op: vfs.OpStat}},
	} {
		faults := faultfs.New(newTestDisk(t))
		s, next := fullStore(t, faults)
		for _, rule := range rules {
			faults.Add(rule)
		}
		if err := s.Append(next()); !errors.Is(err, vfs.ErrNoSpace) {
			t.Errorf("%s: %v", name, err)
		}
		if s.Err() == nil {
			t.Errorf("%s: later edits would be appended to the old file", name)
		}
	}
}
