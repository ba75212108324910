package vfstest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/vfs"
)

// behaviours are the tests of the suite. Each runs on an empty directory.
var behaviours = []struct {
	name string
	test func(t *testing.T, fs vfs.FS, dir string)
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

// Run runs the suite. newDir returns a file system and an empty directory for each test.
func Run(t *testing.T, newDir func(t *testing.T) (vfs.FS, string)) {
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			fs, dir := newDir(t)
			b.test(t, fs, dir)
		})
	}
}

// RunMappings runs the tests of mappings, one at a time, in the goroutine of the caller.
// newDir returns an empty directory of fs for each test.
func RunMappings(t *testing.T, fs vfs.FS, newDir func() string) {
	t.Helper()
	testMap(t, fs, newDir())
	testMapAfterCut(t, fs, newDir())
	testMappingOutlivesFile(t, fs, newDir())
	testMappingRanges(t, fs, newDir())
}

// EmptyDir creates an empty directory on a disk in memory, and returns both.
func EmptyDir(t *testing.T, fs vfs.FS) (vfs.FS, string) {
	t.Helper()
	Must(t, fs.MkdirAll("/some/dir"))
	return fs, "/some/dir"
}

func testCreateRefusesTakenName(t *testing.T, fs vfs.FS, dir string) {
	name := fs.Join(dir, "a")
	Close(t, Create(t, fs, name, "first"))
	_, err := fs.Create(name, vfs.CatTable)
	WantIs(t, err, vfs.ErrExist)
	WantContents(t, FileContents(t, fs, name), "first")
	Must(t, fs.MkdirAll(fs.Join(dir, "d")))
	_, err = fs.Create(fs.Join(dir, "d"), vfs.CatTable)
	WantIs(t, err, vfs.ErrExist)
}

func testMissingNames(t *testing.T, fs vfs.FS, dir string) {
	gone := fs.Join(dir, "gone")
	_, err := fs.Open(gone, vfs.CatTable)
	WantIs(t, err, vfs.ErrNotExist)
	_, err = fs.OpenReadWrite(gone, vfs.CatTable)
	WantIs(t, err, vfs.ErrNotExist)
	_, err = fs.Stat(gone)
	WantIs(t, err, vfs.ErrNotExist)
	_, err = fs.List(gone)
	WantIs(t, err, vfs.ErrNotExist)
	_, err = fs.Create(fs.Join(gone, "a"), vfs.CatTable)
	WantIs(t, err, vfs.ErrNotExist)
	_, err = fs.Lock(fs.Join(gone, "LOCK"))
	WantIs(t, err, vfs.ErrNotExist)
	WantIs(t, fs.Remove(gone), vfs.ErrNotExist)
	WantIs(t, fs.Rename(gone, fs.Join(dir, "b")), vfs.ErrNotExist)
	WantIs(t, fs.Link(gone, fs.Join(dir, "b")), vfs.ErrNotExist)
	WantIs(t, fs.SyncDir(gone), vfs.ErrNotExist)
}

func testDirectoryIsNoFile(t *testing.T, fs vfs.FS, dir string) {
	sub := fs.Join(dir, "sub")
	Must(t, fs.MkdirAll(sub))
	_, err := fs.Open(sub, vfs.CatTable)
	WantError(t, "open a directory", err)
	_, err = fs.OpenReadWrite(sub, vfs.CatTable)
	WantError(t, "open a directory for writing", err)
	_, err = fs.Lock(sub)
	WantError(t, "lock a directory", err)
	file := fs.Join(dir, "file")
	Close(t, Create(t, fs, file, ""))
	_, err = fs.List(file)
	WantError(t, "list a file", err)
	WantError(t, "sync a file as a directory", fs.SyncDir(file))
	WantError(t, "make a directory where a file is", fs.MkdirAll(file))
	WantError(t, "make a directory below a file", fs.MkdirAll(fs.Join(file, "x")))
	_, err = fs.Create(fs.Join(file, "x"), vfs.CatTable)
	WantError(t, "create below a file", err)
}

func testReadSeesWrite(t *testing.T, fs vfs.FS, dir string) {
	name := fs.Join(dir, "a")
	w := Create(t, fs, name, "hello")
	defer Close(t, w)
	r, err := fs.Open(name, vfs.CatTable)
	Must(t, err)
	defer Close(t, r)
	w2, err := fs.OpenReadWrite(name, vfs.CatTable)
	Must(t, err)
	defer Close(t, w2)
	Write(t, w2, 5, " world")
	Write(t, w, 0, "H")
	WantContents(t, Contents(t, r), "Hello world")
	if r.Name() != name {
		t.Fatalf("got name %q, want %q", r.Name(), name)
	}
}

func testReadAtEnd(t *testing.T, fs vfs.FS, dir string) {
	f := Create(t, fs, fs.Join(dir, "a"), "12345")
	defer Close(t, f)
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

func testGapsReadAsZeros(t *testing.T, fs vfs.FS, dir string) {
	f := Create(t, fs, fs.Join(dir, "a"), "x")
	defer Close(t, f)
	const far = 300_001
	Write(t, f, far, "y")
	WantContents(t, Contents(t, f), "x"+string(make([]byte, far-1))+"y")
}

func testTruncate(t *testing.T, fs vfs.FS, dir string) {
	f := Create(t, fs, fs.Join(dir, "a"), "0123456789")
	defer Close(t, f)
	Must(t, f.Truncate(4))
	WantContents(t, Contents(t, f), "0123")
	Must(t, f.Truncate(10))
	WantContents(t, Contents(t, f), "0123\x00\x00\x00\x00\x00\x00")
	big := bytes.Repeat([]byte("abcdefgh"), 100_000)
	Write(t, f, 0, string(big))
	for _, size := range []int{700_001, 524_288, 262_144, 262_143, 8192, 4097, 1, 0} {
		Must(t, f.Truncate(int64(size)))
		WantContents(t, Contents(t, f), string(big[:size]))
		Must(t, f.Truncate(800_000))
		WantContents(t, Contents(t, f), string(big[:size])+string(make([]byte, 800_000-size)))
		Must(t, f.Truncate(int64(size)))
	}
}

func testPreallocate(t *testing.T, fs vfs.FS, dir string) {
	f := Create(t, fs, fs.Join(dir, "a"), "head")
	defer Close(t, f)
	Must(t, Reserve(f, 0, 100_000))
	WantContents(t, Contents(t, f), "head"+string(make([]byte, 100_000-4)))
	Must(t, Reserve(f, 10, 20))
	Must(t, Reserve(f, 100_000, 0))
	if size, err := f.Size(); err != nil || size != 100_000 {
		t.Fatalf("got size %d, %v, want 100000", size, err)
	}
	Write(t, f, 99_998, "tail")
	if size, err := f.Size(); err != nil || size != 100_002 {
		t.Fatalf("got size %d, %v, want 100002", size, err)
	}
	Must(t, Reserve(f, 150_000, 0))
	if size, err := f.Size(); err != nil || size != 150_000 {
		t.Fatalf("got size %d, %v, want 150000", size, err)
	}
}

func testReadHandle(t *testing.T, fs vfs.FS, dir string) {
	name := fs.Join(dir, "a")
	Close(t, Create(t, fs, name, "x"))
	r, err := fs.Open(name, vfs.CatTable)
	Must(t, err)
	defer Close(t, r)
	_, err = r.WriteAt([]byte("y"), 0)
	WantError(t, "write", err)
	WantError(t, "truncate", r.Truncate(0))
	WantError(t, "preallocate", Reserve(r, 0, 10))
	WantContents(t, Contents(t, r), "x")
}

func testClosedHandle(t *testing.T, fs vfs.FS, dir string) {
	f := Create(t, fs, fs.Join(dir, "a"), "x")
	m, err := f.Map(1)
	Must(t, err)
	Close(t, f)
	_, err = f.ReadAt(make([]byte, 1), 0)
	WantIs(t, err, vfs.ErrClosed)
	_, err = f.WriteAt([]byte("y"), 0)
	WantIs(t, err, vfs.ErrClosed)
	_, err = f.Size()
	WantIs(t, err, vfs.ErrClosed)
	_, err = f.Map(1)
	WantIs(t, err, vfs.ErrClosed)
	WantIs(t, f.Truncate(0), vfs.ErrClosed)
	WantIs(t, Reserve(f, 0, 1), vfs.ErrClosed)
	WantIs(t, f.SyncData(), vfs.ErrClosed)
	WantIs(t, f.Sync(), vfs.ErrClosed)
	WantIs(t, f.Close(), vfs.ErrClosed)
	Close(t, m)
	WantIs(t, m.WillNeed(0, 1), vfs.ErrClosed)
	WantIs(t, PopulateOf(m)(0, 1), vfs.ErrClosed)
	WantIs(t, m.KeepUsed(), vfs.ErrClosed)
	WantIs(t, m.DontNeed(0, 1), vfs.ErrClosed)
	WantIs(t, m.Close(), vfs.ErrClosed)
}

func testNegativeRanges(t *testing.T, fs vfs.FS, dir string) {
	f := Create(t, fs, fs.Join(dir, "a"), "x")
	defer Close(t, f)
	_, err := f.ReadAt(make([]byte, 1), -1)
	WantError(t, "read at -1", err)
	_, err = f.WriteAt([]byte("y"), -1)
	WantError(t, "write at -1", err)
	if errors.Is(err, vfs.ErrNoSpace) {
		t.Fatalf("write at -1 is taken for a full disk: %v", err)
	}
	WantError(t, "truncate to -1", f.Truncate(-1))
	WantError(t, "preallocate at -1", Reserve(f, -1, 1))
	WantError(t, "preallocate -1 bytes", Reserve(f, 0, -1))
	_, err = f.Map(-1)
	WantError(t, "map -1 bytes", err)
	WantContents(t, Contents(t, f), "x")
}

func testSyncs(t *testing.T, fs vfs.FS, dir string) {
	f := Create(t, fs, fs.Join(dir, "a"), "x")
	defer Close(t, f)
	Must(t, f.SyncRange(0, 1))
	Must(t, f.SyncRange(0, 0))
	Must(t, f.WaitRange(0, 1))
	Must(t, f.WaitRange(0, 0))
	Must(t, f.SyncData())
	Must(t, f.Sync())
	r, err := fs.Open(fs.Join(dir, "a"), vfs.CatTable)
	Must(t, err)
	defer Close(t, r)
	Must(t, r.SyncData())
	Must(t, fs.SyncDir(dir))
}

func testFree(t *testing.T, fs vfs.FS, dir string) {
	free, err := fs.Free(dir)
	Must(t, err)
	if free == 0 {
		t.Fatal("got no free space")
	}
	_, err = fs.Free(fs.Join(dir, "gone"))
	WantIs(t, err, vfs.ErrNotExist)
}

func testErrorsNamePath(t *testing.T, fs vfs.FS, dir string) {
	name := fs.Join(dir, "gone")
	_, err := fs.Open(name, vfs.CatTable)
	var p *vfs.PathError
	if !errors.As(err, &p) {
		t.Fatalf("got %T, want a *PathError", err)
	}
	if p.Op != "open" || p.Path != name {
		t.Fatalf("got operation %q and path %q, want open and %q", p.Op, p.Path, name)
	}
}

func testConcurrentUse(t *testing.T, fs vfs.FS, dir string) {
	f := Create(t, fs, fs.Join(dir, "shared"), string(make([]byte, 64<<10)))
	defer Close(t, f)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			mine := bytes.Repeat([]byte{byte('a' + w)}, 1000)
			f.WillWrite(int64(w)*16<<10, 32<<10)
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
				g, err := fs.Create(name, vfs.CatTemp)
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
	Must(t, err)
	if !slices.Equal(names, []string{"shared"}) {
		t.Fatalf("got names %v, want the shared file only", names)
	}
}
