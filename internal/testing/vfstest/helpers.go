package vfstest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/vfs"
)

// Must fails the test when err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantIs fails the test when errors.Is does not find target in err.
func WantIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got error %v, want one that is %v", err, target)
	}
}

// WantError fails the test when err is nil. what describes the call.
func WantError(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Fatalf("%s: got no error", what)
	}
}

// Create creates a file with the given contents and leaves it open.
func Create(t *testing.T, fs vfs.FS, name string, contents string) vfs.File {
	t.Helper()
	f, err := fs.Create(name, vfs.CatTable)
	Must(t, err)
	Write(t, f, 0, contents)
	return f
}

// Write writes contents at off, or fails the test.
func Write(t *testing.T, f vfs.File, off int64, contents string) {
	t.Helper()
	n, err := f.WriteAt([]byte(contents), off)
	Must(t, err)
	if n != len(contents) {
		t.Fatalf("wrote %d bytes, want %d", n, len(contents))
	}
}

// Close closes c, or fails the test.
func Close(t testing.TB, c io.Closer) {
	t.Helper()
	Must(t, c.Close())
}

// Contents returns all bytes of an open file.
func Contents(t *testing.T, f vfs.File) string {
	t.Helper()
	size, err := f.Size()
	Must(t, err)
	buf := make([]byte, size)
	if n, err := f.ReadAt(buf, 0); int64(n) != size || err != nil && err != io.EOF {
		t.Fatalf("read %d of %d bytes: %v", n, size, err)
	}
	return string(buf)
}

// FileContents returns all bytes of a file by name.
func FileContents(t *testing.T, fs vfs.FS, name string) string {
	t.Helper()
	f, err := fs.Open(name, vfs.CatTable)
	Must(t, err)
	defer Close(t, f)
	return Contents(t, f)
}

// WantContents fails the test when got and want differ.
func WantContents(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("got contents %q, want %q", Clip(got), Clip(want))
	}
}

// Clip shortens a long text for messages.
func Clip(s string) string {
	if len(s) > 100 {
		return fmt.Sprintf("%s… (%d bytes)", s[:100], len(s))
	}
	return s
}

// Reserve returns the error of f.Preallocate.
func Reserve(f vfs.File, off, n int64) error {
	_, err := f.Preallocate(off, n)
	return err
}

// PopulateOf returns m.Populate without its first result.
func PopulateOf(m vfs.Mapping) func(off, n int64) error {
	return func(off, n int64) error {
		_, err := m.Populate(off, n)
		return err
	}
}

// Rand returns a random number generator with the given seed.
func Rand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// Resized returns b truncated, or extended with zeros, to size bytes.
func Resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}
