package vfstest

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/vfs"
)

func testRenameReplaces(t *testing.T, fs vfs.FS, dir string) {
	a, b := fs.Join(dir, "a"), fs.Join(dir, "b")
	Close(t, Create(t, fs, a, "A"))
	held := Create(t, fs, b, "B")
	defer Close(t, held)
	Must(t, fs.Rename(a, b))
	WantContents(t, FileContents(t, fs, b), "A")
	WantContents(t, Contents(t, held), "B")
	_, err := fs.Stat(a)
	WantIs(t, err, vfs.ErrNotExist)
	sub := fs.Join(dir, "sub")
	Must(t, fs.MkdirAll(sub))
	Must(t, fs.Rename(b, fs.Join(sub, "c")))
	WantContents(t, FileContents(t, fs, fs.Join(sub, "c")), "A")
	WantError(t, "rename onto a directory", fs.Rename(fs.Join(sub, "c"), sub))
}

func testRenameDirectories(t *testing.T, fs vfs.FS, dir string) {
	Must(t, fs.MkdirAll(fs.Join(dir, "d", "e")))
	Close(t, Create(t, fs, fs.Join(dir, "d", "e", "f"), "F"))
	Must(t, fs.Rename(fs.Join(dir, "d"), fs.Join(dir, "D")))
	WantContents(t, FileContents(t, fs, fs.Join(dir, "D", "e", "f")), "F")
	WantError(t, "rename a directory into itself",
		fs.Rename(fs.Join(dir, "D"), fs.Join(dir, "D", "e", "x")))
	Must(t, fs.MkdirAll(fs.Join(dir, "full", "x")))
	WantError(t, "rename onto a full directory", fs.Rename(fs.Join(dir, "D"), fs.Join(dir, "full")))
	Close(t, Create(t, fs, fs.Join(dir, "file"), ""))
	WantError(t, "rename a directory onto a file", fs.Rename(fs.Join(dir, "D"), fs.Join(dir, "file")))
	WantContents(t, FileContents(t, fs, fs.Join(dir, "D", "e", "f")), "F")
}

func testRenameSameFile(t *testing.T, fs vfs.FS, dir string) {
	a, b := fs.Join(dir, "a"), fs.Join(dir, "b")
	Close(t, Create(t, fs, a, "A"))
	Must(t, fs.Rename(a, a))
	Must(t, fs.Link(a, b))
	Must(t, fs.Rename(a, b))
	WantContents(t, FileContents(t, fs, b), "A")
}

func testLink(t *testing.T, fs vfs.FS, dir string) {
	a, b := fs.Join(dir, "a"), fs.Join(dir, "b")
	f := Create(t, fs, a, "one")
	defer Close(t, f)
	Must(t, fs.Link(a, b))
	WantIs(t, fs.Link(a, b), vfs.ErrExist)
	Write(t, f, 0, "ONE")
	WantContents(t, FileContents(t, fs, b), "ONE")
	Must(t, fs.Remove(a))
	Write(t, f, 0, "two")
	WantContents(t, FileContents(t, fs, b), "two")
}

func testHandleSurvivesRemove(t *testing.T, fs vfs.FS, dir string) {
	name := fs.Join(dir, "a")
	f := Create(t, fs, name, "old")
	defer Close(t, f)
	Must(t, fs.Remove(name))
	_, err := fs.Stat(name)
	WantIs(t, err, vfs.ErrNotExist)
	Close(t, Create(t, fs, name, "new"))
	Write(t, f, 3, "er")
	Must(t, f.SyncData())
	WantContents(t, Contents(t, f), "older")
	WantContents(t, FileContents(t, fs, name), "new")
}

func testRemoveDirectory(t *testing.T, fs vfs.FS, dir string) {
	sub := fs.Join(dir, "sub")
	Must(t, fs.MkdirAll(sub))
	Close(t, Create(t, fs, fs.Join(sub, "a"), ""))
	WantError(t, "remove a full directory", fs.Remove(sub))
	Must(t, fs.Remove(fs.Join(sub, "a")))
	Must(t, fs.Remove(sub))
	WantIs(t, fs.Remove(sub), vfs.ErrNotExist)
}

func testListSorted(t *testing.T, fs vfs.FS, dir string) {
	for _, name := range []string{"b", "a", "000002.log", "c"} {
		Close(t, Create(t, fs, fs.Join(dir, name), ""))
	}
	Must(t, fs.MkdirAll(fs.Join(dir, "aa")))
	names, err := fs.List(dir)
	Must(t, err)
	if want := []string{"000002.log", "a", "aa", "b", "c"}; !slices.Equal(names, want) {
		t.Fatalf("got %v, want %v", names, want)
	}
}

func testMkdirAll(t *testing.T, fs vfs.FS, dir string) {
	deep := fs.Join(dir, "x", "y", "z")
	Must(t, fs.MkdirAll(deep))
	Must(t, fs.MkdirAll(deep))
	info, err := fs.Stat(deep)
	Must(t, err)
	if !info.Dir {
		t.Fatal("got no directory")
	}
	if fs.Base(deep) != "z" || fs.Dir(deep) != fs.Join(dir, "x", "y") {
		t.Fatalf("got base %q and dir %q of %q", fs.Base(deep), fs.Dir(deep), deep)
	}
}

func testStat(t *testing.T, fs vfs.FS, dir string) {
	name := fs.Join(dir, "a")
	f := Create(t, fs, name, string(make([]byte, 10_000)))
	defer Close(t, f)
	Must(t, f.Sync())
	info, err := fs.Stat(name)
	Must(t, err)
	if info.Size != 10_000 || info.Dir || info.Allocated < 10_000 {
		t.Fatalf("got %+v, want a file of 10000 bytes that takes as many", info)
	}
	info, err = fs.Stat(dir)
	Must(t, err)
	if !info.Dir {
		t.Fatalf("got %+v, want a directory", info)
	}
}

func testLockExcludes(t *testing.T, fs vfs.FS, dir string) {
	name := fs.Join(dir, "LOCK")
	held, err := fs.Lock(name)
	Must(t, err)
	_, err = fs.Lock(name)
	WantIs(t, err, vfs.ErrLocked)
	elsewhere := fs.Join(dir, "elsewhere")
	Must(t, fs.MkdirAll(elsewhere))
	other, err := fs.Lock(fs.Join(elsewhere, "LOCK"))
	Must(t, err)
	Close(t, other)
	Close(t, held)
	WantIs(t, held.Close(), vfs.ErrClosed)
	again, err := fs.Lock(name)
	Must(t, err)
	Close(t, again)
	if _, err := fs.Stat(name); err != nil {
		t.Fatalf("the file of the lock is gone: %v", err)
	}
}

func testLockShared(t *testing.T, fs vfs.FS, dir string) {
	name := fs.Join(dir, "LOCK")
	_, err := fs.LockShared(name)
	WantIs(t, err, vfs.ErrNotExist)
	if _, err := fs.Stat(name); !errors.Is(err, vfs.ErrNotExist) {
		t.Fatalf("the file of the lock was made: %v", err)
	}
	alone, err := fs.Lock(name)
	Must(t, err)
	_, err = fs.LockShared(name)
	WantIs(t, err, vfs.ErrLocked)
	Close(t, alone)
	var shared [3]io.Closer
	for i := range shared {
		shared[i], err = fs.LockShared(name)
		Must(t, err)
	}
	for _, held := range shared {
		_, err = fs.Lock(name)
		WantIs(t, err, vfs.ErrLocked)
		Close(t, held)
		WantIs(t, held.Close(), vfs.ErrClosed)
	}
	alone, err = fs.Lock(name)
	Must(t, err)
	Close(t, alone)
}

// A lock survives the removal of its file. Windows refuses the removal.
func testLockOutlivesItsFile(t *testing.T, fs vfs.FS, dir string) {
	name := fs.Join(dir, "LOCK")
	held, err := fs.Lock(name)
	Must(t, err)
	removed := fs.Remove(name)
	if runtime.GOOS != "windows" {
		Must(t, removed)
	}
	for _, lock := range []func(string) (io.Closer, error){fs.Lock, fs.LockShared} {
		_, err = lock(name)
		WantIs(t, err, vfs.ErrLocked)
	}
	if _, err := fs.Stat(name); removed == nil && !errors.Is(err, vfs.ErrNotExist) {
		t.Fatalf("a refused lock created the file: %v", err)
	}
	Close(t, held)
	held, err = fs.Lock(name)
	Must(t, err)
	Close(t, held)
	held, err = fs.LockShared(name)
	Must(t, err)
	if fs.Remove(name) == nil {
		_, err = fs.Lock(name)
		WantIs(t, err, vfs.ErrLocked)
	}
	Close(t, held)
}

func testLockDir(t *testing.T, fs vfs.FS, dir string) {
	name, other := fs.Join(dir, "name"), fs.Join(dir, "other")
	_, err := fs.LockDir(name)
	WantIs(t, err, vfs.ErrNotExist)
	Close(t, Create(t, fs, other, ""))
	if _, err := fs.LockDir(other); err == nil {
		t.Fatal("a file was locked as a directory")
	}
	Must(t, fs.Remove(other))
	Must(t, fs.MkdirAll(name))
	held, err := fs.LockDir(name)
	Must(t, err)
	excludes := func(name string) {
		t.Helper()
		if runtime.GOOS == "windows" {
			return // Windows cannot lock directories
		}
		_, err := fs.LockDir(name)
		WantIs(t, err, vfs.ErrLocked)
		_, err = fs.Lock(fs.Join(name, "LOCK"))
		WantIs(t, err, vfs.ErrLocked)
	}
	excludes(name)
	Must(t, fs.Rename(name, other))
	excludes(other)
	Must(t, fs.MkdirAll(name))
	second, err := fs.LockDir(name)
	Must(t, err)
	Close(t, second)
	Close(t, held)
	WantIs(t, held.Close(), vfs.ErrClosed)
	held, err = fs.Lock(fs.Join(other, "LOCK"))
	Must(t, err)
	excludes(other)
	Close(t, held)
}

func testMap(t *testing.T, fs vfs.FS, dir string) {
	f := Create(t, fs, fs.Join(dir, "a"), string(make([]byte, 100_000)))
	defer Close(t, f)
	Write(t, f, 50_000, "middle")
	m, err := f.Map(99_999)
	Must(t, err)
	Must(t, m.WillNeed(0, 99_999))
	Must(t, PopulateOf(m)(40_001, 20_000))
	b := m.Bytes()
	if len(b) != 99_999 || string(b[50_000:50_006]) != "middle" || b[0] != 0 {
		t.Fatalf("got %d bytes with %q in the middle", len(b), b[50_000:50_006])
	}
	Must(t, m.KeepUsed())
	Must(t, m.DontNeed(0, 99_999))
	if string(b[50_000:50_006]) != "middle" {
		t.Fatal("bytes that were not needed did not come back")
	}
	// Appends are allowed because they do not change the mapped range.
	Write(t, f, 100_000, "more")
	if b[99_998] != 0 {
		t.Fatal("appending changed mapped bytes")
	}
	second, err := f.Map(100_004)
	Must(t, err)
	if string(second.Bytes()[100_000:]) != "more" {
		t.Fatalf("got %q at the end of a second mapping", second.Bytes()[100_000:])
	}
	Close(t, m)
	Close(t, second)
	_, err = f.Map(100_005)
	WantError(t, "map beyond the end", err)
	empty, err := f.Map(0)
	Must(t, err)
	if len(empty.Bytes()) != 0 {
		t.Fatalf("got %d bytes of an empty mapping", len(empty.Bytes()))
	}
	Close(t, empty)
}

func testMappingOutlivesFile(t *testing.T, fs vfs.FS, dir string) {
	name := fs.Join(dir, "a")
	f := Create(t, fs, name, "still there")
	m, err := f.Map(11)
	Must(t, err)
	Close(t, f)
	Must(t, fs.Remove(name))
	Close(t, Create(t, fs, name, "other bytes"))
	Must(t, PopulateOf(m)(0, 11))
	WantContents(t, string(m.Bytes()), "still there")
	Close(t, m)
}

func testMappingRanges(t *testing.T, fs vfs.FS, dir string) {
	f := Create(t, fs, fs.Join(dir, "a"), string(make([]byte, 10_000)))
	defer Close(t, f)
	m, err := f.Map(10_000)
	Must(t, err)
	defer Close(t, m)
	for _, call := range []func(off, n int64) error{m.WillNeed, PopulateOf(m), m.DontNeed} {
		Must(t, call(10_000, 0))
		Must(t, call(9_999, 1))
		WantError(t, "range beyond the end", call(9_999, 2))
		WantError(t, "range before the start", call(-1, 2))
		WantError(t, "negative range", call(5, -1))
	}
}

// testMapAfterCut maps a file, truncates it, grows it and maps it again. The second
// mapping must not show the truncated bytes.
func testMapAfterCut(t *testing.T, fs vfs.FS, dir string) {
	f := Create(t, fs, fs.Join(dir, "a"), string(bytes.Repeat([]byte("x"), 20_000)))
	defer Close(t, f)
	m, err := f.Map(20_000)
	Must(t, err)
	Close(t, m)
	Must(t, f.Truncate(5_000))
	Must(t, f.Truncate(20_000))
	m, err = f.Map(20_000)
	Must(t, err)
	WantContents(t, string(m.Bytes()[4_999:]), "x"+string(make([]byte, 15_000)))
	Close(t, m)
}
