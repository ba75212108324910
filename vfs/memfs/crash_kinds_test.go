package memfs

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/vfs"
)

// Each kind must produce the states that its name promises. A crash test on disks that
// lose nothing finds nothing.

// A crashScene is a disk with files that were synced and changed since, new files, and
// changed names.
type crashScene struct {
	disk *FS
	// data is synced. Since then, it had a write in place and an append.
	data, second, tmp, gone vfs.File
}

const (
	oldBlock = "old old old old "
	newBlock = "new new new new "
)

func newCrashScene(t *testing.T) crashScene {
	t.Helper()
	m := New()
	must(t, m.MkdirAll("/db"))
	file := func(name, text string) vfs.File {
		f, err := m.Create("/db/"+name, vfs.CatLog)
		must(t, err)
		write(t, f, 0, strings.Repeat(text, 8192/len(text)))
		return f
	}
	s := crashScene{
		disk:   m,
		data:   file("data", oldBlock),
		second: file("second", oldBlock),
		tmp:    file("tmp", oldBlock),
		gone:   file("gone", oldBlock),
	}
	for _, f := range []vfs.File{s.data, s.second, s.tmp, s.gone} {
		must(t, f.Sync())
	}
	must(t, m.SyncDir("/db"))

	write(t, s.data, 0, strings.Repeat(newBlock, 4096/len(newBlock)))
	write(t, s.data, 8192, strings.Repeat(newBlock, 16384/len(newBlock)))
	write(t, s.second, 0, strings.Repeat(newBlock, 4096/len(newBlock)))
	must(t, m.Rename("/db/tmp", "/db/current"))
	must(t, m.Remove("/db/gone"))
	fresh, err := m.Create("/db/fresh", vfs.CatTable)
	must(t, err)
	write(t, fresh, 0, "fresh")
	must(t, fresh.Sync())
	return s
}

// states returns the disks after many crashes of a kind.
func (s crashScene) states(t *testing.T, kind CrashKind) []map[string]string {
	t.Helper()
	var all []map[string]string
	for seed := range uint64(60) {
		all = append(all, dump(t, s.disk.Crash(kind, testRand(seed))))
	}
	return all
}

func has(name string) func(disk map[string]string) bool {
	return func(disk map[string]string) bool {
		_, ok := disk["/db/"+name]
		return ok
	}
}

func not(f func(map[string]string) bool) func(map[string]string) bool {
	return func(disk map[string]string) bool { return !f(disk) }
}

// holds reports whether [from, to) of a file is the repeated text.
func holds(name string, from, to int, text string) func(disk map[string]string) bool {
	return func(disk map[string]string) bool {
		c := disk["/db/"+name]
		if len(c) < to {
			return false
		}
		return c[from:to] == strings.Repeat(text, (to-from)/len(text))
	}
}

func size(name string, bytes int) func(disk map[string]string) bool {
	return func(disk map[string]string) bool { return len(disk["/db/"+name]) == bytes }
}

func both(fs ...func(map[string]string) bool) func(map[string]string) bool {
	return func(disk map[string]string) bool {
		return !slices.ContainsFunc(fs, func(f func(map[string]string) bool) bool { return !f(disk) })
	}
}

func either(a, b func(map[string]string) bool) func(map[string]string) bool {
	return func(disk map[string]string) bool { return a(disk) || b(disk) }
}

// The states in which all names or all data are new, or old.
var (
	newNames = both(has("data"), has("current"), has("fresh"), not(has("tmp")), not(has("gone")))
	oldNames = both(has("data"), has("tmp"), has("gone"), not(has("current")), not(has("fresh")))
	allData  = both(holds("data", 0, 4096, newBlock), holds("data", 8192, 24576, newBlock), holds("second", 0, 4096, newBlock))
	oldData  = both(holds("data", 0, 8192, oldBlock), size("data", 8192), holds("second", 0, 4096, oldBlock))
	tail     = func(c string) string { return c[min(len(c), 8192):] }
)

func TestCrashKind_DoesWhatItsNameSays(t *testing.T) {
	t.Parallel()
	type check = func(map[string]string) bool
	tests := []struct {
		kind CrashKind
		// always must hold in every state. Each of sometimes must hold in at least one.
		always    check
		sometimes []check
	}{
		{KeepNone, both(oldNames, oldData), nil},
		{KeepAll, both(newNames, allData), nil},
		{Prefix, nil, []check{both(oldNames, oldData), both(newNames, allData),
			both(holds("data", 0, 4096, newBlock), size("data", 8192))}},
		{Suffix, nil, []check{both(newNames, holds("data", 0, 4096, oldBlock), holds("data", 8192, 24576, newBlock)),
			both(newNames, oldData)}},
		{Subset, nil, []check{both(has("gone"), has("current")), both(has("tmp"), has("fresh")),
			both(holds("data", 0, 4096, oldBlock), holds("second", 0, 4096, newBlock))}},
		{LoseOne, either(size("data", 8192), holds("data", 8192, 24576, newBlock)), []check{both(newNames, holds("data", 0, 4096, oldBlock), holds("data", 8192, 24576, newBlock)),
			both(allData, has("gone")), both(allData, has("tmp")), both(allData, not(has("fresh")))}},
		{KeepOne, nil, []check{both(oldNames, holds("data", 0, 4096, newBlock), size("data", 8192)),
			both(oldData, has("current")), both(oldData, has("fresh"))}},
		{Torn, newNames, []check{both(holds("data", 0, 512, oldBlock), holds("data", 512, 1024, newBlock)),
			both(holds("data", 0, 512, newBlock), holds("data", 512, 1024, oldBlock)), size("data", 8192)}},
		{TornLast, both(newNames, holds("data", 0, 4096, newBlock), size("data", 24576)),
			[]check{not(holds("data", 8192, 24576, newBlock)), not(holds("second", 0, 4096, newBlock))}},
		{Hole, both(newNames, size("data", 24576)),
			[]check{both(holds("data", 0, 512, newBlock), not(allData), holds("data", 24064, 24576, newBlock))}},
		{SizeBeforeData, both(newNames, size("data", 24576), holds("data", 0, 8192, oldBlock)),
			[]check{holds("data", 8192, 24576, "\x00"), not(holds("data", 8192, 24576, "\x00"))}},
		{DataBeforeSize, both(newNames, size("data", 8192), holds("data", 0, 4096, newBlock)), nil},
		{ZeroTail, both(newNames, size("data", 24576)), []check{
			both(holds("data", 8192, 8704, newBlock), holds("data", 24064, 24576, "\x00"))}},
		{GarbageTail, both(newNames, size("data", 24576)), []check{
			both(holds("data", 8192, 8704, newBlock), not(holds("data", 24064, 24576, newBlock)), not(holds("data", 24064, 24576, "\x00")))}},
		{StaleTail, both(newNames, size("data", 24576)), []check{
			both(holds("data", 8192, 8704, newBlock), holds("data", 24064, 24576, oldBlock))}},
		{ShortTail, both(newNames, holds("data", 0, 4096, newBlock)), []check{
			func(d map[string]string) bool { n := len(tail(d["/db/data"])); return n > 0 && n < 16384 }}},
		{NamesOnly, both(newNames, oldData), nil},
		{ContentsOnly, both(oldNames, allData), nil},
		{NamesSubset, allData, []check{both(has("tmp"), has("fresh")), both(has("gone"), has("current"), not(has("fresh")))}},
		{NamesPrefix, allData, []check{oldNames, newNames, both(has("current"), has("gone")), both(has("current"), not(has("gone")), not(has("fresh")))}},
		{CreatesLost, both(allData, not(has("fresh")), has("current"), not(has("gone"))), nil},
		{RenamesLost, both(allData, has("fresh"), has("tmp"), not(has("current")), not(has("gone"))), nil},
		{RenamesDoubled, both(allData, has("tmp"), has("current"), not(has("gone"))), nil},
		{RemovalsLost, both(allData, has("gone"), has("fresh"), has("current")), nil},
		{OneFileLost, newNames, []check{
			both(holds("data", 0, 4096, oldBlock), holds("second", 0, 4096, newBlock)),
			both(holds("data", 0, 4096, newBlock), holds("second", 0, 4096, oldBlock))}},
		{OneFileKept, newNames, []check{
			both(holds("data", 0, 4096, oldBlock), holds("second", 0, 4096, newBlock)),
			both(holds("data", 0, 4096, newBlock), holds("second", 0, 4096, oldBlock))}},
		{CategoryLost, both(newNames, oldData), nil},
		{Mixed, nil, []check{has("tmp"), has("gone"), not(has("fresh")), holds("data", 0, 4096, oldBlock)}},
	}
	tested := map[CrashKind]bool{}
	for _, test := range tests {
		tested[test.kind] = true
		t.Run(test.kind.String(), func(t *testing.T) {
			t.Parallel()
			states := newCrashScene(t).states(t, test.kind)
			for i, state := range states {
				if test.always != nil && !test.always(state) {
					t.Fatalf("seed %d: got %v", i, describe(state))
				}
			}
			for i, want := range test.sometimes {
				if !slices.ContainsFunc(states, want) {
					t.Errorf("no state shows effect %d", i)
				}
			}
		})
	}
	for _, kind := range CrashKinds() {
		if !tested[kind] {
			t.Errorf("kind %q has no test", kind)
		}
	}
}

// describe returns the names with their contents, shortened.
func describe(disk map[string]string) (s []string) {
	for _, name := range slices.Sorted(maps.Keys(disk)) {
		s = append(s, name+" "+clip(disk[name]))
	}
	return s
}

func TestCrash_LosesSyncedFileWithoutSyncedName(t *testing.T) {
	t.Parallel()
	m := New()
	must(t, m.MkdirAll("/db"))
	f := create(t, m, "/db/a", "synced")
	must(t, f.Sync())
	if _, err := m.Crash(KeepNone, testRand(1)).Stat("/db/a"); err == nil {
		t.Fatal("a name that was never synced survived")
	}
	wantContents(t, fileContents(t, m.Crash(NamesOnly, testRand(1)), "/db/a"), "synced")
	must(t, m.SyncDir("/db"))
	wantContents(t, fileContents(t, m.Crash(KeepNone, testRand(1)), "/db/a"), "synced")
}

func TestSync_CoversWritesOfOtherHandles(t *testing.T) {
	t.Parallel()
	m := New()
	f := create(t, m, "/a", "one")
	must(t, m.SyncDir("/"))
	other, err := m.OpenReadWrite("/a", vfs.CatLog)
	must(t, err)
	write(t, other, 3, " two")
	must(t, f.SyncData())
	wantContents(t, fileContents(t, m.Crash(KeepNone, testRand(1)), "/a"), "one two")
}

func TestRename_BetweenDirectoriesNeedsBothSyncs(t *testing.T) {
	t.Parallel()
	m := New()
	must(t, m.MkdirAll("/a"))
	must(t, m.MkdirAll("/b"))
	must(t, create(t, m, "/a/x", "x").Sync())
	must(t, m.SyncDir("/a"))
	must(t, m.Rename("/a/x", "/b/y"))
	names := func(m *FS) string {
		a, err := m.List("/a")
		must(t, err)
		b, err := m.List("/b")
		must(t, err)
		return strings.Join(a, " ") + "|" + strings.Join(b, " ")
	}
	lost := m.Clone()
	must(t, lost.SyncDir("/a"))
	if got := names(lost.Crash(KeepNone, testRand(1))); got != "|" {
		t.Fatalf("old directory synced: got %q, want the file in neither", got)
	}
	must(t, m.SyncDir("/b"))
	if got := names(m.Crash(KeepNone, testRand(1))); got != "x|y" {
		t.Fatalf("new directory synced: got %q, want the file in both", got)
	}
	must(t, m.SyncDir("/a"))
	if got := names(m.Crash(KeepNone, testRand(1))); got != "|y" {
		t.Fatalf("both synced: got %q", got)
	}
}

func TestCrash_LaterWriteOfASectorBringsTheEarlier(t *testing.T) {
	t.Parallel()
	m := New()
	f := create(t, m, "/a", strings.Repeat(".", 512))
	must(t, f.Sync())
	must(t, m.SyncDir("/"))
	write(t, f, 0, "first")
	write(t, f, 100, "second")
	after := m.CrashKeeping(func(i int) bool { return i == 1 })
	got := fileContents(t, after, "/a")
	if !strings.HasPrefix(got, "first") || got[100:106] != "second" {
		t.Fatalf("got %q: a sector that no version of the file had", got)
	}
}

func TestMkdirAll_IsDurableWhenItReturns(t *testing.T) {
	t.Parallel()
	m := New()
	must(t, m.MkdirAll("/x/y/z"))
	info, err := m.Crash(KeepNone, testRand(1)).Stat("/x/y/z")
	must(t, err)
	if !info.Dir {
		t.Fatal("got no directory")
	}
}

func TestCrash_TruncationDoesNotMixVersionsOfASector(t *testing.T) {
	t.Parallel()
	m := New()
	f := create(t, m, "/a", strings.Repeat("o", 512))
	must(t, f.Sync())
	must(t, m.SyncDir("/"))
	write(t, f, 0, strings.Repeat("n", 512))
	must(t, f.Truncate(100))
	must(t, f.Truncate(512))
	// The write itself is lost. The truncation zeroed a part of its sector, which had
	// the written bytes at that time.
	got := fileContents(t, m.CrashKeeping(func(i int) bool { return i > 0 }), "/a")
	wantContents(t, got, strings.Repeat("n", 100)+string(make([]byte, 412)))
}

func TestCrash_BytesBeyondTheEndDoNotComeBack(t *testing.T) {
	t.Parallel()
	m := New()
	f := create(t, m, "/a", "short")
	must(t, f.Sync())
	must(t, m.SyncDir("/"))
	write(t, f, 5, strings.Repeat("beyond", 2000))
	after := m.Crash(DataBeforeSize, testRand(1))
	wantContents(t, fileContents(t, after, "/a"), "short")
	g, err := after.OpenReadWrite("/a", vfs.CatLog)
	must(t, err)
	must(t, g.Truncate(12_000))
	wantContents(t, contents(t, g), "short"+string(make([]byte, 11_995)))
}

// TestCrash_LeavesEachDirectoryOneName moves directories back and forth and loses the
// removals. Without further care, two directories would contain each other.
func TestCrash_LeavesEachDirectoryOneName(t *testing.T) {
	t.Parallel()
	m := New()
	must(t, m.MkdirAll("/a"))
	must(t, m.MkdirAll("/b"))
	closeFile(t, create(t, m, "/a/file", ""))
	must(t, m.SyncDir("/a"))
	must(t, m.Rename("/a", "/b/a"))
	must(t, m.Rename("/b/a", "/a"))
	must(t, m.Rename("/b", "/a/b"))
	after := dump(t, m.Crash(RemovalsLost, testRand(1)))
	wantSameDisk(t, after, map[string]string{"/a": "directory", "/a/b": "directory", "/a/file": ""})
}
