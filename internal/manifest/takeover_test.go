package manifest

import (
	"errors"
	"slices"
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

// The system takes names for durable whose sync has failed. If Load relied on such a name, its
// caller would delete files of the manifest that a power cut brings back.
func TestDiskFull_LoadRefusesAManifestWhoseNameAPowerCutMayTake(t *testing.T) {
	t.Parallel()
	for _, fate := range []vfs.SyncFate{vfs.SyncDropped, vfs.SyncHalf} {
		disk := newTestDisk(t)
		faults := faultfs.New(disk)
		s, next := fullStore(t, faults)
		faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Sync: fate})
		if err := s.Append(next()); !errors.Is(err, faultfs.ErrInjected) {
			t.Fatalf("fate %d: Append returned %v", fate, err)
		}
		_ = s.Close() // it repeats the error
		disk.SetCapacity(disk.UsedBytes())
		for range 2 {
			if _, _, err := Load(disk, testDir, false, testRandom(2), nil); !errors.Is(err, vfs.ErrNoSpace) {
				t.Errorf("fate %d: Load on the full disk returned %v", fate, err)
			}
		}
		reader, _, err := Load(disk, testDir, true, nil, nil)
		must(t, err)
		must(t, reader.Close())

		disk.SetCapacity(1 << 30)
		s, _, err = Load(disk, testDir, false, testRandom(3), nil)
		must(t, err)
		wantLoaded(t, disk, s)
		must(t, s.Close())
		names, err := disk.List(testDir)
		must(t, err)
		if want := []string{FileName(3)}; !slices.Equal(names, want) {
			t.Errorf("fate %d: the directory has %q, want %q", fate, names, want)
		}
	}
}

// A power cut may leave both names of a rename. The name is durable then.
func TestDiskFull_LoadTakesAManifestWithBothNames(t *testing.T) {
	t.Parallel()
	disk := newTestDisk(t)
	s, next := fullStore(t, disk)
	must(t, s.Append(next()))
	path := s.path(s.mu.file.number)
	must(t, disk.Link(path, path+tempSuffix))
	disk = disk.Clone() // the process dies
	disk.SetCapacity(disk.UsedBytes())
	s, _, err := Load(disk, testDir, false, testRandom(2), nil)
	must(t, err)
	must(t, s.Close())
	if _, err := disk.Stat(path + tempSuffix); !errors.Is(err, vfs.ErrNotExist) {
		t.Errorf("the temporary name is still there: %v", err)
	}
}

// With a wrong length in its snapshot, the new manifest could not be loaded, and the old one
// would be gone.
func TestTakeover_MoreTablesThanAListHoldsChangeNothing(t *testing.T) {
	t.Parallel()
	disk := newTestDisk(t)
	s, next := fullStore(t, disk)
	before, huge := s.State(), s.State()
	// The tables share their references, so that they take little memory here.
	refs := ValueRefs{encoded: make([]byte, 1<<24)}
	huge.Version = new(Version)
	for range listMax/int64(len(refs.encoded)) + 1 {
		table := tableAt(1, Levels-1, "a", "b")
		table.Values = refs
		huge.Version.Levels[Levels-1] = append(huge.Version.Levels[Levels-1], table)
	}
	s.state.Store(&huge)
	wantRefused := func(what string, e Edit) {
		if err := s.Append(e); err == nil || !strings.Contains(err.Error(), "the list of 256 tables takes") {
			t.Fatalf("%s: %v", what, err)
		}
		must(t, s.Err())
	}
	wantRefused("a long snapshot", next())
	s.state.Store(&before)
	wantRefused("a long edit", Edit{AddTables: huge.Version.Levels[Levels-1]})
	names, err := disk.List(testDir)
	must(t, err)
	if len(names) != 1 {
		t.Errorf("files are left over: %v", names)
	}
	wantLoaded(t, disk, s)
	must(t, s.Append(next()))
	must(t, s.Close())
	wantLoaded(t, disk, s)
}
