package vfs

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"
)

func testRenameReplaces(t *testing.T, fs FS, dir string) {
	a, b := fs.Join(dir, "a"), fs.Join(dir, "b")
	closeFile(t, create(t, fs, a, "A"))
	held := create(t, fs, b, "B")
	defer closeFile(t, held)
	must(t, fs.Rename(a, b))
	wantContents(t, fileContents(t, fs, b), "A")
	wantContents(t, contents(t, held), "B")
	_, err := fs.Stat(a)
	wantIs(t, err, ErrNotExist)
	sub := fs.Join(dir, "sub")
	must(t, fs.MkdirAll(sub))
	must(t, fs.Rename(b, fs.Join(sub, "c")))
	wantContents(t, fileContents(t, fs, fs.Join(sub, "c")), "A")
	wantError(t, "rename onto a directory", fs.Rename(fs.Join(sub, "c"), sub))
}

func testRenameDirectories(t *testing.T, fs FS, dir string) {
	must(t, fs.MkdirAll(fs.Join(dir, "d", "e")))
	closeFile(t, create(t, fs, fs.Join(dir, "d", "e", "f"), "F"))
	must(t, fs.Rename(fs.Join(dir, "d"), fs.Join(dir, "D")))
	wantContents(t, fileContents(t, fs, fs.Join(dir, "D", "e", "f")), "F")
	wantError(t, "rename a directory into itself",
		fs.Rename(fs.Join(dir, "D"), fs.Join(dir, "D", "e", "x")))
	must(t, fs.MkdirAll(fs.Join(dir, "full", "x")))
	wantError(t, "rename onto a full directory", fs.Rename(fs.Join(dir, "D"), fs.Join(dir, "full")))
	closeFile(t, create(t, fs, fs.Join(dir, "file"), ""))
	wantError(t, "rename a directory onto a file", fs.Rename(fs.Join(dir, "D"), fs.Join(dir, "file")))
	wantContents(t, fileContents(t, fs, fs.Join(dir, "D", "e", "f")), "F")
}

func testRenameSameFile(t *testing.T, fs FS, dir string) {
	a, b := fs.Join(dir, "a"), fs.Join(dir, "b")
	closeFile(t, create(t, fs, a, "A"))
	must(t, fs.Rename(a, a))
	must(t, fs.Link(a, b))
	must(t, fs.Rename(a, b))
	wantContents(t, fileContents(t, fs, b), "A")
}

func testLink(t *testing.T, fs FS, dir string) {
	a, b := fs.Join(dir, "a"), fs.Join(dir, "b")
	f := create(t, fs, a, "one")
	defer closeFile(t, f)
	must(t, fs.Link(a, b))
	wantIs(t, fs.Link(a, b), ErrExist)
	write(t, f, 0, "ONE")
	wantContents(t, fileContents(t, fs, b), "ONE")
	must(t, fs.Remove(a))
	write(t, f, 0, "two")
	wantContents(t, fileContents(t, fs, b), "two")
}

func testHandleSurvivesRemove(t *testing.T, fs FS, dir string) {
	name := fs.Join(dir, "a")
	f := create(t, fs, name, "old")
	defer closeFile(t, f)
	must(t, fs.Remove(name))
	_, err := fs.Stat(name)
	wantIs(t, err, ErrNotExist)
	closeFile(t, create(t, fs, name, "new"))
	write(t, f, 3, "er")
	must(t, f.SyncData())
	wantContents(t, contents(t, f), "older")
	wantContents(t, fileContents(t, fs, name), "new")
}

func testRemoveDirectory(t *testing.T, fs FS, dir string) {
	sub := fs.Join(dir, "sub")
	must(t, fs.MkdirAll(sub))
	closeFile(t, create(t, fs, fs.Join(sub, "a"), ""))
	wantError(t, "remove a full directory", fs.Remove(sub))
	must(t, fs.Remove(fs.Join(sub, "a")))
	must(t, fs.Remove(sub))
	wantIs(t, fs.Remove(sub), ErrNotExist)
}

func testListSorted(t *testing.T, fs FS, dir string) {
	for _, name := range []string{"b", "a", "000002.log", "c"} {
		closeFile(t, create(t, fs, fs.Join(dir, name), ""))
	}
	must(t, fs.MkdirAll(fs.Join(dir, "aa")))
	names, err := fs.List(dir)
	must(t, err)
	if want := []string{"000002.log", "a", "aa", "b", "c"}; !slices.Equal(names, want) {
		t.Fatalf("got %v, want %v", names, want)
	}
}

func testMkdirAll(t *testing.T, fs FS, dir string) {
	deep := fs.Join(dir, "x", "y", "z")
	must(t, fs.MkdirAll(deep))
	must(t, fs.MkdirAll(deep))
	info, err := fs.Stat(deep)
	must(t, err)
	if !info.Dir {
		t.Fatal("got no directory")
	}
	if fs.Base(deep) != "z" || fs.Dir(deep) != fs.Join(dir, "x", "y") {
		t.Fatalf("got base %q and dir %q of %q", fs.Base(deep), fs.Dir(deep), deep)
	}
}

func testStat(t *testing.T, fs FS, dir string) {
	name := fs.Join(dir, "a")
	f := create(t, fs, name, string(make([]byte, 10_000)))
	defer closeFile(t, f)
	must(t, f.Sync())
	info, err := fs.Stat(name)
	must(t, err)
	if info.Size != 10_000 || info.Dir || info.Allocated < 10_000 {
		t.Fatalf("got %+v, want a file of 10000 bytes that takes as many", info)
	}
	info, err = fs.Stat(dir)
	must(t, err)
	if !info.Dir {
		t.Fatalf("got %+v, want a directory", info)
	}
}

func testLockExcludes(t *testing.T, fs FS, dir string) {
	name := fs.Join(dir, "LOCK")
	held, err := fs.Lock(name)
	must(t, err)
	_, err = fs.Lock(name)
	wantIs(t, err, ErrLocked)
	elsewhere := fs.Join(dir, "elsewhere")
	must(t, fs.MkdirAll(elsewhere))
	other, err := fs.Lock(fs.Join(elsewhere, "LOCK"))
	must(t, err)
	closeFile(t, other)
	closeFile(t, held)
	wantIs(t, held.Close(), ErrClosed)
	again, err := fs.Lock(name)
	must(t, err)
	closeFile(t, again)
	if _, err := fs.Stat(name); err != nil {
		t.Fatalf("the file of the lock is gone: %v", err)
	}
}

func testLockShared(t *testing.T, fs FS, dir string) {
	name := fs.Join(dir, "LOCK")
	_, err := fs.LockShared(name)
	wantIs(t, err, ErrNotExist)
	if _, err := fs.Stat(name); !errors.Is(err, ErrNotExist) {
		t.Fatalf("the file of the lock was made: %v", err)
	}
	alone, err := fs.Lock(name)
	must(t, err)
	_, err = fs.LockShared(name)
	wantIs(t, err, ErrLocked)
	closeFile(t, alone)
	var shared [3]io.Closer
	for i := range shared {
		shared[i], err = fs.LockShared(name)
		must(t, err)
	}
	for _, held := range shared {
		_, err = fs.Lock(name)
		wantIs(t, err, ErrLocked)
		closeFile(t, held)
		wantIs(t, held.Close(), ErrClosed)
	}
	alone, err = fs.Lock(name)
	must(t, err)
	closeFile(t, alone)
}

// Who holds the lock goes on to do so when its file is removed. Windows does not
// let that happen.
func testLockOutlivesItsFile(t *testing.T, fs FS, dir string) {
	name := fs.Join(dir, "LOCK")
	held, err := fs.Lock(name)
	must(t, err)
	removed := fs.Remove(name)
	if runtime.GOOS != "windows" {
		must(t, removed)
	}
	for _, lock := range []func(string) (io.Closer, error){fs.Lock, fs.LockShared} {
		_, err = lock(name)
		wantIs(t, err, ErrLocked)
	}
	if _, err := fs.Stat(name); removed == nil && !errors.Is(err, ErrNotExist) {
		t.Fatalf("who was refused made the file: %v", err)
	}
	closeFile(t, held)
	held, err = fs.Lock(name)
	must(t, err)
	closeFile(t, held)
	held, err = fs.LockShared(name)
	must(t, err)
	if fs.Remove(name) == nil {
		_, err = fs.Lock(name)
		wantIs(t, err, ErrLocked)
	}
	closeFile(t, held)
}

func testLockDir(t *testing.T, fs FS, dir string) {
	name, other := fs.Join(dir, "name"), fs.Join(dir, "other")
	_, err := fs.LockDir(name)
	wantIs(t, err, ErrNotExist)
	closeFile(t, create(t, fs, other, ""))
	if _, err := fs.LockDir(other); err == nil {
		t.Fatal("a file was locked as a directory")
	}
	must(t, fs.Remove(other))
	must(t, fs.MkdirAll(name))
	held, err := fs.LockDir(name)
	must(t, err)
	excludes := func(name string) {
		t.Helper()
		if runtime.GOOS == "windows" {
			return // it locks no directories
		}
		_, err := fs.LockDir(name)
		wantIs(t, err, ErrLocked)
		_, err = fs.Lock(fs.Join(name, "LOCK"))
		wantIs(t, err, ErrLocked)
	}
	excludes(name)
	must(t, fs.Rename(name, other))
	excludes(other)
	must(t, fs.MkdirAll(name))
	second, err := fs.LockDir(name)
	must(t, err)
	closeFile(t, second)
	closeFile(t, held)
	wantIs(t, held.Close(), ErrClosed)
	held, err = fs.Lock(fs.Join(other, "LOCK"))
	must(t, err)
	excludes(other)
	closeFile(t, held)
}

func testMap(t *testing.T, fs FS, dir string) {
	f := create(t, fs, fs.Join(dir, "a"), string(make([]byte, 100_000)))
	defer closeFile(t, f)
	write(t, f, 50_000, "middle")
	m, err := f.Map(99_999)
	must(t, err)
	must(t, m.WillNeed(0, 99_999))
	must(t, populateOf(m)(40_001, 20_000))
	b := m.Bytes()
	if len(b) != 99_999 || string(b[50_000:50_006]) != "middle" || b[0] != 0 {
		t.Fatalf("got %d bytes with %q in the middle", len(b), b[50_000:50_006])
	}
	must(t, m.DontNeed(0, 99_999))
	if string(b[50_000:50_006]) != "middle" {
		t.Fatal("bytes that were not needed did not come back")
	}
	// Appending is allowed: it does not touch what is mapped.
	write(t, f, 100_000, "more")
	if b[99_998] != 0 {
		t.Fatal("appending changed mapped bytes")
	}
	second, err := f.Map(100_004)
	must(t, err)
	if string(second.Bytes()[100_000:]) != "more" {
		t.Fatalf("got %q at the end of a second mapping", second.Bytes()[100_000:])
	}
	closeFile(t, m)
	closeFile(t, second)
	_, err = f.Map(100_005)
	wantError(t, "map beyond the end", err)
	empty, err := f.Map(0)
	must(t, err)
	if len(empty.Bytes()) != 0 {
		t.Fatalf("got %d bytes of an empty mapping", len(empty.Bytes()))
	}
	closeFile(t, empty)
}

func testMappingOutlivesFile(t *testing.T, fs FS, dir string) {
	name := fs.Join(dir, "a")
	f := create(t, fs, name, "still there")
	m, err := f.Map(11)
	must(t, err)
	closeFile(t, f)
	must(t, fs.Remove(name))
	closeFile(t, create(t, fs, name, "other bytes"))
	must(t, populateOf(m)(0, 11))
	wantContents(t, string(m.Bytes()), "still there")
	closeFile(t, m)
}

func testMappingRanges(t *testing.T, fs FS, dir string) {
	f := create(t, fs, fs.Join(dir, "a"), string(make([]byte, 10_000)))
	defer closeFile(t, f)
	m, err := f.Map(10_000)
	must(t, err)
	defer closeFile(t, m)
	for _, call := range []func(off, n int64) error{m.WillNeed, populateOf(m), m.DontNeed} {
		must(t, call(10_000, 0))
		must(t, call(9_999, 1))
		wantError(t, "range beyond the end", call(9_999, 2))
		wantError(t, "range before the start", call(-1, 2))
		wantError(t, "negative range", call(5, -1))
	}
}

// testMapAfterCut maps a file, cuts it and grows it again: the second mapping
// must not show what the first one did.
func testMapAfterCut(t *testing.T, fs FS, dir string) {
	f := create(t, fs, fs.Join(dir, "a"), string(bytes.Repeat([]byte("x"), 20_000)))
	defer closeFile(t, f)
	m, err := f.Map(20_000)
	must(t, err)
	closeFile(t, m)
	must(t, f.Truncate(5_000))
	must(t, f.Truncate(20_000))
	m, err = f.Map(20_000)
	must(t, err)
	wantContents(t, string(m.Bytes()[4_999:]), "x"+string(make([]byte, 15_000)))
	closeFile(t, m)
}

// populateOf returns m.Populate without the number.
func populateOf(m Mapping) func(off, n int64) error {
	return func(off, n int64) error {
		_, err := m.Populate(off, n)
		return err
	}
}
