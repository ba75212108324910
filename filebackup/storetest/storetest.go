// Package storetest checks that a filebackup.Store keeps the promises of the interface.
package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/filebackup"
)

// large is the size in bytes of an object that many stores store in parts.
const large = 17 << 20

// Run runs all checks. open returns an empty store each time it is called.
func Run(t *testing.T, open func(t *testing.T) filebackup.Store) {
	for name, check := range map[string]func(*testing.T, filebackup.Store){
		"GetReturnsWhatPutStored":      testSizes,
		"PutReplaces":                  testReplace,
		"ListIsByPrefixAndCurrent":     testList,
		"ListOfManyEndsWithTheLoop":    testMany,
		"MissingObjects":               testMissing,
		"AFailedPutLeavesTheOldObject": testFailedPut,
		"ADoneContextEndsPutAndList":   testContext,
		"GoroutinesShareAStore":        testConcurrent,
		"PutsOfOneNameLeaveOneOfThem":  testOneName,
		"AReaderGetsOneWholeContent":   testReadWhileReplaced,
	} {
		t.Run(name, func(t *testing.T) { check(t, open(t)) })
	}
}

// content returns n bytes that depend on the seed.
func content(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(n))
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b) // it has no end
	return b
}

func put(ctx context.Context, s filebackup.Store, name string, b []byte) error {
	return s.Put(ctx, name, io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))))
}

func mustPut(t *testing.T, s filebackup.Store, name string, b []byte) {
	t.Helper()
	if err := put(t.Context(), s, name, b); err != nil {
		t.Fatalf("Put %s: %v", name, err)
	}
}

func get(ctx context.Context, s filebackup.Store, name string) ([]byte, error) {
	r, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

// want checks the content of an object.
func want(t *testing.T, s filebackup.Store, name string, b []byte) {
	t.Helper()
	if got, err := get(t.Context(), s, name); err != nil || !bytes.Equal(got, b) {
		t.Errorf("%s has %d bytes, want the %d that Put stored: %v", name, len(got), len(b), err)
	}
}

// list returns the sizes of objects by their names.
func list(t *testing.T, s filebackup.Store, prefix string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for o, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("List %q: %v", prefix, err)
		}
		if _, twice := all[o.Name]; twice {
			t.Errorf("List %q has %s twice", prefix, o.Name)
		}
		all[o.Name] = o.Size
	}
	return all
}

func testSizes(t *testing.T, s filebackup.Store) {
	for i, n := range []int{0, 1, 4096, 1<<20 + 1, large} {
		name := fmt.Sprintf("files/%d", n)
		b := content(uint64(i), n)
		mustPut(t, s, name, b)
		want(t, s, name, b)
	}
}

func testReplace(t *testing.T, s filebackup.Store) {
	for i, n := range []int{100, 10, 5000, 0} {
		b := content(uint64(i), n)
		mustPut(t, s, "claims/one", b)
		want(t, s, "claims/one", b)
	}
	if got := list(t, s, "claims/"); len(got) != 1 || got["claims/one"] != 0 {
		t.Errorf("List has %v", got)
	}
}

func testList(t *testing.T, s filebackup.Store) {
	all := map[string]int64{"files/a1": 1, "files/a2": 2, "files/b": 3, "lists/a": 4, "single": 5}
	for name, n := range all {
		mustPut(t, s, name, content(0, int(n)))
	}
	for _, prefix := range []string{"", "f", "files/", "files/a", "files/a1", "lists/", "claims/", "s", "filesystem"} {
		under := maps.Clone(all)
		maps.DeleteFunc(under, func(name string, _ int64) bool { return !strings.HasPrefix(name, prefix) })
		if got := list(t, s, prefix); !maps.Equal(got, under) {
			t.Errorf("List %q has %v, want %v", prefix, got, under)
		}
	}
	if err := s.Delete(t.Context(), "files/a1"); err != nil {
		t.Error(err)
	}
	if got := list(t, s, "files/"); len(got) != 2 {
		t.Errorf("after Delete, List has %v", got)
	}
}

// testMany has more objects than one answer of an object store.
func testMany(t *testing.T, s filebackup.Store) {
	names := make(chan string)
	var running sync.WaitGroup
	for range 16 {
		running.Go(func() {
			for name := range names {
				if err := put(t.Context(), s, name, []byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	const n = 1100
	for i := range n {
		names <- fmt.Sprintf("files/%04d", i)
	}
	close(names)
	running.Wait()
	if got := list(t, s, "files/"); len(got) != n {
		t.Errorf("List has %d objects, want %d", len(got), n)
	}
	seen := 0
	for _, err := range s.List(t.Context(), "files/") {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen == 3 {
			break
		}
	}
}

func testMissing(t *testing.T, s filebackup.Store) {
	if _, err := get(t.Context(), s, "files/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of no object: %v", err)
	}
	if err := s.Delete(t.Context(), "files/none"); err != nil {
		t.Errorf("Delete of no object: %v", err)
	}
	mustPut(t, s, "files/one", []byte("x"))
	for range 2 {
		if err := s.Delete(t.Context(), "files/one"); err != nil {
			t.Error(err)
		}
	}
	if _, err := get(t.Context(), s, "files/one"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get after Delete: %v", err)
	}
}

// A failing reader returns an error from an offset on.
type failing struct {
	io.ReaderAt
	from int64
	err  error
}

func (f failing) ReadAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) > f.from {
		return 0, f.err
	}
	return f.ReaderAt.ReadAt(b, off)
}

func testFailedPut(t *testing.T, s filebackup.Store) {
	broken := errors.New("broken")
	old := content(1, 300)
	mustPut(t, s, "files/old", old)
	for _, n := range []int{1 << 20, large} {
		r := failing{bytes.NewReader(content(2, n)), int64(n) * 9 / 10, broken}
		for _, name := range []string{"files/old", "files/new"} {
			if err := s.Put(t.Context(), name, io.NewSectionReader(r, 0, int64(n))); !errors.Is(err, broken) {
				t.Errorf("a Put whose content cannot be read: %v", err)
			}
		}
	}
	want(t, s, "files/old", old)
	if got := list(t, s, "files/"); len(got) != 1 {
		t.Errorf("List has %v", slices.Sorted(maps.Keys(got)))
	}
}

func testContext(t *testing.T, s filebackup.Store) {
	mustPut(t, s, "files/a", []byte("x"))
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := put(done, s, "files/b", content(1, 1<<20)); !errors.Is(err, context.Canceled) {
		t.Errorf("Put with a canceled context: %v", err)
	}
	for _, err := range s.List(done, "files/") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("List with a canceled context: %v", err)
		}
	}
	if got := list(t, s, ""); len(got) != 1 {
		t.Errorf("List has %v", got)
	}
}

func testConcurrent(t *testing.T, s filebackup.Store) {
	var running sync.WaitGroup
	// A server that keeps objects in directories may remove one that is empty while
	// another request is about to use it. One object keeps this one.
	mustPutOrError(t, s, "files/first", content(100, 10))
	for i := range 8 {
		running.Go(func() {
			for k := range 4 {
				name := fmt.Sprintf("files/%d-%d", i, k)
				b := content(uint64(i*10+k), 100_000)
				mustPutOrError(t, s, name, b)
				want(t, s, name, b)
				if k%2 == 0 {
					if err := s.Delete(t.Context(), name); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	running.Wait()
	if got := list(t, s, "files/"); len(got) != 17 {
		t.Errorf("List has %d objects, want 17", len(got))
	}
}

// mustPutOrError is mustPut for goroutines.
func mustPutOrError(t *testing.T, s filebackup.Store, name string, b []byte) {
	if err := put(t.Context(), s, name, b); err != nil {
		t.Errorf("Put %s: %v", name, err)
	}
}

func testOneName(t *testing.T, s filebackup.Store) {
	var running sync.WaitGroup
	var all [][]byte
	for i := range 8 {
		b := content(uint64(i), 200_000+i)
		all = append(all, b)
		running.Go(func() { mustPutOrError(t, s, "files/same", b) })
	}
	running.Wait()
	got, err := get(t.Context(), s, "files/same")
	if err != nil || !slices.ContainsFunc(all, func(b []byte) bool { return bytes.Equal(b, got) }) {
		t.Errorf("the object has %d bytes of no single Put: %v", len(got), err)
	}
	if got := list(t, s, "files/"); len(got) != 1 {
		t.Errorf("List has %v", got)
	}
}

// testReadWhileReplaced reads an object beside its replacement and its deletion. A reader
// gets one whole content, or an error.
func testReadWhileReplaced(t *testing.T, s filebackup.Store) {
	contents := [][]byte{content(1, 300_000), content(2, 300_000)}
	mustPut(t, s, "files/a", contents[0])
	var running sync.WaitGroup
	running.Go(func() {
		for i := range 10 {
			mustPutOrError(t, s, "files/a", contents[i%2])
		}
		if err := s.Delete(t.Context(), "files/a"); err != nil {
			t.Error(err)
		}
	})
	for range 10 {
		got, err := get(t.Context(), s, "files/a")
		if err == nil && !bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1]) {
			t.Errorf("a reader got %d bytes of no single Put", len(got))
		}
	}
	running.Wait()
}
