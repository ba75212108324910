package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
)

// The conformance suite: what every FS must do alike, whatever stores the
// bytes.

// implementations are the file systems under test, each with a way to get an
// empty directory of it.
var implementations = []struct {
	name string
	make func(t *testing.T) (FS, string)
}{
	{"OS", func(t *testing.T) (FS, string) { return OS(), t.TempDir() }},
	{"Mem", func(t *testing.T) (FS, string) { return inDir(t, NewMem()) }},
	{"Volatile", func(t *testing.T) (FS, string) { return inDir(t, NewVolatile()) }},
	{"CrashedMem", func(t *testing.T) (FS, string) {
		return inDir(t, NewMem().Crash(CrashKeepNone, testRand(1)))
	}},
	{"FaultsOverMem", func(t *testing.T) (FS, string) { return inDir(t, NewFaults(NewMem())) }},
	{"FaultsOverOS", func(t *testing.T) (FS, string) { return NewFaults(OS()), t.TempDir() }},
}

func inDir(t *testing.T, fs FS) (FS, string) {
	t.Helper()
	must(t, fs.MkdirAll("/some/dir"))
	return fs, "/some/dir"
}

// behaviours are the tests, each on an empty directory.
var behaviours = []struct {
	name string
	test func(t *testing.T, fs FS, dir string)
}{
	{"CreateRefusesTakenName", testCreateRefusesTakenName},
	{"MissingNamesAreErrNotExist", testMissingNames},
	{"DirectoryIsNoFile", testDirectoryIsNoFile},
	{"ReadSeesWriteOfOtherHandle", testReadSeesWrite},
	{"ReadAtEndIsEOF", testReadAtEnd},
	{"GapsReadAsZeros", testGapsReadAsZeros},
	{"TruncateCutsAndGrowsWithZeros", testTruncate},
	{"PreallocateGrowsAndKeepsContents", testPreallocate},
	{"ReadHandleRefusesWrites", testReadHandle},
	{"ClosedHandleRefusesAll", testClosedHandle},
	{"NegativeRangesAreErrors", testNegativeRanges},
	{"RenameReplaces", testRenameReplaces},
	{"RenameOfDirectories", testRenameDirectories},
	{"RenameBetweenNamesOfOneFileDoesNothing", testRenameSameFile},
	{"LinkSharesContents", testLink},
	{"HandleSurvivesRemove", testHandleSurvivesRemove},
	{"RemoveRefusesFullDirectory", testRemoveDirectory},
	{"ListIsSorted", testListSorted},
	{"MkdirAllMakesLevelsAndIsIdempotent", testMkdirAll},
	{"StatTellsSizeAndKind", testStat},
	{"LockExcludes", testLockExcludes},
	{"SharedLockExcludesTheExclusiveOneAlone", testLockShared},
	{"LockOutlivesItsFile", testLockOutlivesItsFile},
	{"LockOfADirectoryStaysWithIt", testLockDir},
	{"MapShowsContents", testMap},
	{"MapAfterCutShowsZeros", testMapAfterCut},
	{"MappingOutlivesFile", testMappingOutlivesFile},
	{"MappingRangesAreChecked", testMappingRanges},
	{"SyncsSucceed", testSyncs},
	{"FreeIsPositive", testFree},
	{"ErrorsNameOperationAndPath", testErrorsNamePath},
	{"ConcurrentUse", testConcurrentUse},
	{"RandomOperationsMatchModel", testRandomOperations},
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, impl := range implementations {
		t.Run(impl.name, func(t *testing.T) {
			t.Parallel()
			for _, b := range behaviours {
				t.Run(b.name, func(t *testing.T) {
					t.Parallel()
					fs, dir := impl.make(t)
					b.test(t, fs, dir)
				})
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got error %v, want one that is %v", err, target)
	}
}

func wantError(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Fatalf("%s: got no error", what)
	}
}

// create makes a file with the given contents and leaves it open.
func create(t *testing.T, fs FS, name string, contents string) File {
	t.Helper()
	f, err := fs.Create(name, CatTable)
	must(t, err)
	write(t, f, 0, contents)
	return f
}

func write(t *testing.T, f File, off int64, contents string) {
	t.Helper()
	n, err := f.WriteAt([]byte(contents), off)
	must(t, err)
	if n != len(contents) {
		t.Fatalf("wrote %d bytes, want %d", n, len(contents))
	}
}

func closeFile(t testing.TB, c io.Closer) {
	t.Helper()
	must(t, c.Close())
}

// contents returns all bytes of an open file.
func contents(t *testing.T, f File) string {
	t.Helper()
	size, err := f.Size()
	must(t, err)
	buf := make([]byte, size)
	if n, err := f.ReadAt(buf, 0); int64(n) != size || err != nil && err != io.EOF {
		t.Fatalf("read %d of %d bytes: %v", n, size, err)
	}
	return string(buf)
}

// fileContents returns all bytes of a file by name.
func fileContents(t *testing.T, fs FS, name string) string {
	t.Helper()
	f, err := fs.Open(name, CatTable)
	must(t, err)
	defer closeFile(t, f)
	return contents(t, f)
}

func wantContents(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("got contents %q, want %q", clip(got), clip(want))
	}
}

func clip(s string) string {
	if len(s) > 100 {
		return fmt.Sprintf("%s… (%d bytes)", s[:100], len(s))
	}
	return s
}

func testCreateRefusesTakenName(t *testing.T, fs FS, dir string) {
	name := fs.Join(dir, "a")
	closeFile(t, create(t, fs, name, "first"))
	_, err := fs.Create(name, CatTable)
	wantIs(t, err, ErrExist)
	wantContents(t, fileContents(t, fs, name), "first")
	must(t, fs.MkdirAll(fs.Join(dir, "d")))
	_, err = fs.Create(fs.Join(dir, "d"), CatTable)
	wantIs(t, err, ErrExist)
}

func testMissingNames(t *testing.T, fs FS, dir string) {
	gone := fs.Join(dir, "gone")
	_, err := fs.Open(gone, CatTable)
	wantIs(t, err, ErrNotExist)
	_, err = fs.OpenReadWrite(gone, CatTable)
	wantIs(t, err, ErrNotExist)
	_, err = fs.Stat(gone)
	wantIs(t, err, ErrNotExist)
	_, err = fs.List(gone)
	wantIs(t, err, ErrNotExist)
	_, err = fs.Create(fs.Join(gone, "a"), CatTable)
	wantIs(t, err, ErrNotExist)
	_, err = fs.Lock(fs.Join(gone, "LOCK"))
	wantIs(t, err, ErrNotExist)
	wantIs(t, fs.Remove(gone), ErrNotExist)
	wantIs(t, fs.Rename(gone, fs.Join(dir, "b")), ErrNotExist)
	wantIs(t, fs.Link(gone, fs.Join(dir, "b")), ErrNotExist)
	wantIs(t, fs.SyncDir(gone), ErrNotExist)
}

func testDirectoryIsNoFile(t *testing.T, fs FS, dir string) {
	sub := fs.Join(dir, "sub")
	must(t, fs.MkdirAll(sub))
	_, err := fs.Open(sub, CatTable)
	wantError(t, "open a directory", err)
	_, err = fs.OpenReadWrite(sub, CatTable)
	wantError(t, "open a directory for writing", err)
	_, err = fs.Lock(sub)
	wantError(t, "lock a directory", err)
	file := fs.Join(dir, "file")
	closeFile(t, create(t, fs, file, ""))
	_, err = fs.List(file)
	wantError(t, "list a file", err)
	wantError(t, "sync a file as a directory", fs.SyncDir(file))
	wantError(t, "make a directory where a file is", fs.MkdirAll(file))
	wantError(t, "make a directory below a file", fs.MkdirAll(fs.Join(file, "x")))
	_, err = fs.Create(fs.Join(file, "x"), CatTable)
	wantError(t, "create below a file", err)
}

func testReadSeesWrite(t *testing.T, fs FS, dir string) {
	name := fs.Join(dir, "a")
	w := create(t, fs, name, "hello")
	defer closeFile(t, w)
	r, err := fs.Open(name, CatTable)
	must(t, err)
	defer closeFile(t, r)
	w2, err := fs.OpenReadWrite(name, CatTable)
	must(t, err)
	defer closeFile(t, w2)
	write(t, w2, 5, " world")
	write(t, w, 0, "H")
	wantContents(t, contents(t, r), "Hello world")
	if r.Name() != name {
		t.Fatalf("got name %q, want %q", r.Name(), name)
	}
}

func testReadAtEnd(t *testing.T, fs FS, dir string) {
	f := create(t, fs, fs.Join(dir, "a"), "12345")
	defer closeFile(t, f)
	buf := make([]byte, 4)
	if n, err := f.ReadAt(buf, 1); n != 4 || err != nil {
		t.Fatalf("read up to the end: got %d, %v", n, err)
	}
	if n, err := f.ReadAt(buf, 3); n != 2 || err != io.EOF {
		t.Fatalf("read across the end: got %d, %v, want 2, EOF", n, err)
	}
	for _, off := range []int64{5, 6, 1 << 33} {
		if n, err := f.ReadAt(buf, off); n != 0 || err != io.EOF {
			t.Fatalf("read at %d: got %d, %v, want 0, EOF", off, n, err)
		}
	}
	if n, err := f.ReadAt(nil, 0); n != 0 || err != nil {
		t.Fatalf("read of nothing: got %d, %v", n, err)
	}
}

func testGapsReadAsZeros(t *testing.T, fs FS, dir string) {
	f := create(t, fs, fs.Join(dir, "a"), "x")
	defer closeFile(t, f)
	const far = 300_001
	write(t, f, far, "y")
	wantContents(t, contents(t, f), "x"+string(make([]byte, far-1))+"y")
}

func testTruncate(t *testing.T, fs FS, dir string) {
	f := create(t, fs, fs.Join(dir, "a"), "0123456789")
	defer closeFile(t, f)
	must(t, f.Truncate(4))
	wantContents(t, contents(t, f), "0123")
	must(t, f.Truncate(10))
	wantContents(t, contents(t, f), "0123\x00\x00\x00\x00\x00\x00")
	big := bytes.Repeat([]byte("abcdefgh"), 100_000)
	write(t, f, 0, string(big))
	for _, size := range []int{700_001, 524_288, 262_144, 262_143, 8192, 4097, 1, 0} {
		must(t, f.Truncate(int64(size)))
		wantContents(t, contents(t, f), string(big[:size]))
		must(t, f.Truncate(800_000))
		wantContents(t, contents(t, f), string(big[:size])+string(make([]byte, 800_000-size)))
		must(t, f.Truncate(int64(size)))
	}
}

// reserve reserves space, or grows the file where the system cannot reserve.
func reserve(f File, off, n int64) error {
	_, err := f.Preallocate(off, n)
	return err
}

func testPreallocate(t *testing.T, fs FS, dir string) {
	f := create(t, fs, fs.Join(dir, "a"), "head")
	defer closeFile(t, f)
	must(t, reserve(f, 0, 100_000))
	wantContents(t, contents(t, f), "head"+string(make([]byte, 100_000-4)))
	must(t, reserve(f, 10, 20))
	must(t, reserve(f, 100_000, 0))
	if size, err := f.Size(); err != nil || size != 100_000 {
		t.Fatalf("got size %d, %v, want 100000", size, err)
	}
	write(t, f, 99_998, "tail")
	if size, err := f.Size(); err != nil || size != 100_002 {
		t.Fatalf("got size %d, %v, want 100002", size, err)
	}
	must(t, reserve(f, 150_000, 0))
	if size, err := f.Size(); err != nil || size != 150_000 {
		t.Fatalf("got size %d, %v, want 150000", size, err)
	}
}

func testReadHandle(t *testing.T, fs FS, dir string) {
	name := fs.Join(dir, "a")
	closeFile(t, create(t, fs, name, "x"))
	r, err := fs.Open(name, CatTable)
	must(t, err)
	defer closeFile(t, r)
	_, err = r.WriteAt([]byte("y"), 0)
	wantError(t, "write", err)
	wantError(t, "truncate", r.Truncate(0))
	wantError(t, "preallocate", reserve(r, 0, 10))
	wantContents(t, contents(t, r), "x")
}

func testClosedHandle(t *testing.T, fs FS, dir string) {
	f := create(t, fs, fs.Join(dir, "a"), "x")
	m, err := f.Map(1)
	must(t, err)
	closeFile(t, f)
	_, err = f.ReadAt(make([]byte, 1), 0)
	wantIs(t, err, ErrClosed)
	_, err = f.WriteAt([]byte("y"), 0)
	wantIs(t, err, ErrClosed)
	_, err = f.Size()
	wantIs(t, err, ErrClosed)
	_, err = f.Map(1)
	wantIs(t, err, ErrClosed)
	wantIs(t, f.Truncate(0), ErrClosed)
	wantIs(t, reserve(f, 0, 1), ErrClosed)
	wantIs(t, f.SyncData(), ErrClosed)
	wantIs(t, f.Sync(), ErrClosed)
	wantIs(t, f.Close(), ErrClosed)
	closeFile(t, m)
	wantIs(t, m.WillNeed(0, 1), ErrClosed)
	wantIs(t, populateOf(m)(0, 1), ErrClosed)
	wantIs(t, m.DontNeed(0, 1), ErrClosed)
	wantIs(t, m.Close(), ErrClosed)
}

func testNegativeRanges(t *testing.T, fs FS, dir string) {
	f := create(t, fs, fs.Join(dir, "a"), "x")
	defer closeFile(t, f)
	_, err := f.ReadAt(make([]byte, 1), -1)
	wantError(t, "read at -1", err)
	_, err = f.WriteAt([]byte("y"), -1)
	wantError(t, "write at -1", err)
	if errors.Is(err, ErrNoSpace) {
		t.Fatalf("write at -1 is taken for a full disk: %v", err)
	}
	wantError(t, "truncate to -1", f.Truncate(-1))
	wantError(t, "preallocate at -1", reserve(f, -1, 1))
	wantError(t, "preallocate -1 bytes", reserve(f, 0, -1))
	_, err = f.Map(-1)
	wantError(t, "map -1 bytes", err)
	wantContents(t, contents(t, f), "x")
}

func testSyncs(t *testing.T, fs FS, dir string) {
	f := create(t, fs, fs.Join(dir, "a"), "x")
	defer closeFile(t, f)
	must(t, f.SyncRange(0, 1))
	must(t, f.SyncRange(0, 0))
	must(t, f.WaitRange(0, 1))
	must(t, f.WaitRange(0, 0))
	must(t, f.SyncData())
	must(t, f.Sync())
	r, err := fs.Open(fs.Join(dir, "a"), CatTable)
	must(t, err)
	defer closeFile(t, r)
	must(t, r.SyncData())
	must(t, fs.SyncDir(dir))
}

func testFree(t *testing.T, fs FS, dir string) {
	free, err := fs.Free(dir)
	must(t, err)
	if free == 0 {
		t.Fatal("got no free space")
	}
	_, err = fs.Free(fs.Join(dir, "gone"))
	wantIs(t, err, ErrNotExist)
}

func testErrorsNamePath(t *testing.T, fs FS, dir string) {
	name := fs.Join(dir, "gone")
	_, err := fs.Open(name, CatTable)
	var p *PathError
	if !errors.As(err, &p) {
		t.Fatalf("got %T, want a *PathError", err)
	}
	if p.Op != "open" || p.Path != name {
		t.Fatalf("got operation %q and path %q, want open and %q", p.Op, p.Path, name)
	}
}

func testConcurrentUse(t *testing.T, fs FS, dir string) {
	f := create(t, fs, fs.Join(dir, "shared"), string(make([]byte, 64<<10)))
	defer closeFile(t, f)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			mine := bytes.Repeat([]byte{byte('a' + w)}, 1000)
			for i := range 20 {
				off := int64(w*16<<10 + i*500)
				if _, err := f.WriteAt(mine, off); err != nil {
					t.Error(err)
				}
				got := make([]byte, len(mine))
				if _, err := f.ReadAt(got, off); err != nil || !bytes.Equal(got, mine) {
					t.Errorf("read back at %d: %v, equal %v", off, err, bytes.Equal(got, mine))
				}
				if err := f.SyncRange(off, 1000); err != nil {
					t.Error(err)
				}
				name := fs.Join(dir, fmt.Sprintf("%d-%d", w, i))
				g, err := fs.Create(name, CatTemp)
				if err != nil {
					t.Error(err)
					continue
				}
				if err := errors.Join(g.Close(), fs.Rename(name, name+"x"), fs.Remove(name+"x")); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(f.SyncData(), fs.SyncDir(dir)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	names, err := fs.List(dir)
	must(t, err)
	if !slices.Equal(names, []string{"shared"}) {
		t.Fatalf("got names %v, want the shared file only", names)
	}
}
