package vfs

import (
	"errors"
	"io"
	"testing"
)

// These helpers are copies of those in package vfstest, which imports this package. The
// tests inside this package therefore cannot import it.

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

func closeFile(t testing.TB, c io.Closer) {
	t.Helper()
	must(t, c.Close())
}

// create creates a file with the given contents and leaves it open.
func create(t *testing.T, fs FS, name string, contents string) File {
	t.Helper()
	f, err := fs.Create(name, CatTable)
	must(t, err)
	n, err := f.WriteAt([]byte(contents), 0)
	must(t, err)
	if n != len(contents) {
		t.Fatalf("wrote %d bytes, want %d", n, len(contents))
	}
	return f
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

func wantContents(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("got contents of %d bytes, want %d that differ", len(got), len(want))
	}
}

// reserve returns the error of f.Preallocate.
func reserve(f File, off, n int64) error {
	_, err := f.Preallocate(off, n)
	return err
}

// populateOf returns m.Populate without its first result.
func populateOf(m Mapping) func(off, n int64) error {
	return func(off, n int64) error {
		_, err := m.Populate(off, n)
		return err
	}
}
