package vfs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { childTasks["small writes"] = childSmallWrites }

const windowTestSize = 3 * writeWindowSize / 2

// newWindowed returns a file of windowTestSize zeros in memory. Its small writes go through
// a window, or the test fails. Linux before 5.14 has no windows: there the tests check that
// writes do the same without one.
func newWindowed(t *testing.T) *osFile {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "stoat-vfs-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	f, err := openWindowed(filepath.Join(dir, "f"))
	must(t, err)
	t.Cleanup(func() { _ = f.Close() }) // some tests close it
	if f.window.expected.Load() != kernelHasWindows(t) {
		t.Fatalf("a window is expected: %v", !f.window.expected.Load())
	}
	return f
}

// kernelHasWindows reports whether this is Linux 5.14 or later.
func kernelHasWindows(t *testing.T) bool {
	t.Helper()
	var name unix.Utsname
	must(t, unix.Uname(&name))
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	must(t, err)
	return major > 5 || major == 5 && minor >= 14
}

func openWindowed(name string) (*osFile, error) {
	opened, err := OS().Create(name, CatLog)
	if err != nil {
		return nil, err
	}
	f := opened.(*osFile)
	if err := f.Truncate(windowTestSize); err != nil {
		return nil, err
	}
	f.WillWrite(0, windowTestSize)
	return f, nil
}

// smallWrites fills a file with writes of 100 to 199 bytes.
func smallWrites(f *osFile, want []byte) error {
	for off, n := 0, 0; off < len(want); n++ {
		end := min(off+100+n%100, len(want))
		if _, err := f.WriteAt(want[off:end], int64(off)); err != nil {
			return err
		}
		off = end
	}
	return nil
}

// pattern returns the bytes that the tests write.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// mappingsOf returns how many mappings of a file this process has.
func mappingsOf(t *testing.T, name string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	return strings.Count(string(maps), name)
}

func TestWillWrite_SmallWritesGoThroughAWindowAndAreReadAtOnce(t *testing.T) {
	t.Parallel()
	f := newWindowed(t)
	want := pattern(windowTestSize)
	must(t, smallWrites(f, want))
	if n := mappingsOf(t, f.name); n > 0 != kernelHasWindows(t) {
		t.Errorf("%d mappings of the file", n)
	}
	got, err := os.ReadFile(f.name)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Fatal("another handle reads other bytes")
	}
	must(t, f.SyncData())
	must(t, f.Close())
	if n := mappingsOf(t, f.name); n != 0 {
		t.Errorf("%d mappings of the file are left after Close", n)
	}
}

func TestWillWrite_WritesInAnyOrderAndBesideLargeOnes(t *testing.T) {
	t.Parallel()
	f := newWindowed(t)
	want := make([]byte, windowTestSize)
	for i, off := range []int{0, 5000, 100, writeWindowSize - 10, 3, windowTestSize - 50, 70_000, 300_000, 70_000} {
		for _, n := range []int{50, smallWrite, smallWrite + 1, 100_000, 1, 0} {
			p := bytes.Repeat([]byte{byte(i*10 + n%9 + 1)}, min(n, windowTestSize-off))
			n, err := f.WriteAt(p, int64(off))
			must(t, err)
			if n != len(p) {
				t.Fatalf("wrote %d bytes of %d", n, len(p))
			}
			copy(want[off:], p)
		}
	}
	got := make([]byte, windowTestSize)
	_, err := f.ReadAt(got, 0)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Fatal("the file has other bytes than were written")
	}
}

func TestWillWrite_AWriteBeyondTheEndExtendsTheFile(t *testing.T) {
	t.Parallel()
	f := newWindowed(t)
	const end = windowTestSize - 1000 // within a page
	must(t, f.Truncate(end))
	f.WillWrite(0, windowTestSize-500) // in the same page
	for _, off := range []int64{end - 5, end + 5, end + 10_000} {
		_, err := f.WriteAt([]byte("0123456789"), off)
		must(t, err)
		size, err := f.Size()
		must(t, err)
		if size != off+10 {
			t.Fatalf("the file has %d bytes after 10 at %d", size, off)
		}
	}
	if _, err := f.WriteAt([]byte("x"), -1); err == nil {
		t.Error("wrote at -1")
	}
}

func TestWillWrite_ATruncationEndsTheWindow(t *testing.T) {
	t.Parallel()
	f := newWindowed(t)
	_, err := f.WriteAt([]byte("before"), 100)
	must(t, err)
	must(t, f.Truncate(50))
	if n := mappingsOf(t, f.name); n != 0 {
		t.Errorf("%d mappings are left", n)
	}
	_, err = f.WriteAt([]byte("after"), 60)
	must(t, err)
	got, err := os.ReadFile(f.name)
	must(t, err)
	if want := string(make([]byte, 60)) + "after"; string(got) != want {
		t.Fatalf("got %q", got)
	}
}

func TestWillWrite_AFaultInTheWindowIsWrittenBySystemCall(t *testing.T) {
	t.Parallel()
	f := newWindowed(t)
	_, err := f.WriteAt([]byte("before"), 0)
	must(t, err)
	must(t, os.Truncate(f.name, 0)) // as another process may
	n, err := f.WriteAt([]byte("after"), 10)
	must(t, err)
	if n != 5 || f.window.expected.Load() {
		t.Errorf("wrote %d bytes, window still in use: %v", n, f.window.expected.Load())
	}
	got, err := os.ReadFile(f.name)
	must(t, err)
	if want := string(make([]byte, 10)) + "after"; string(got) != want {
		t.Fatalf("got %q", got)
	}
}

func TestWillWrite_AHandleForReadingRefusesWrites(t *testing.T) {
	t.Parallel()
	f := newWindowed(t)
	r, err := OS().Open(f.name, CatLog)
	must(t, err)
	defer closeFile(t, r)
	r.WillWrite(0, windowTestSize)
	if _, err := r.WriteAt([]byte("x"), 0); err == nil {
		t.Fatal("a handle for reading has written")
	}
}

// childSmallWrites writes through a window, says so, and waits to be killed.
func childSmallWrites(args []string) error {
	f, err := openWindowed(args[0])
	if err != nil {
		return err
	}
	if err := smallWrites(f, pattern(windowTestSize)); err != nil {
		return err
	}
	fmt.Println("written")
	_, _ = io.ReadAll(os.Stdin) // wait for the kill
	return nil
}

func TestWillWrite_SmallWritesSurviveTheProcess(t *testing.T) {
	t.Parallel()
	name := newWindowed(t).name + "-of-child"
	c := startChild(t, "small writes", name)
	c.wantLine(t, "written")
	must(t, c.cmd.Process.Kill())
	_ = c.cmd.Wait() // reports the kill
	got, err := os.ReadFile(name)
	must(t, err)
	if !bytes.Equal(got, pattern(windowTestSize)) {
		t.Fatal("bytes that were written before the kill are lost")
	}
}

// BenchmarkSmallWrites writes a file again from front to end, by system calls and through
// a window. What wrote the file before decides how large the folios of the page cache are:
// the cost of a page that becomes writable grows with them.
func BenchmarkSmallWrites(b *testing.B) {
	for _, before := range []int{4 << 10, 1 << 20} {
		for _, n := range []int{128, 1 << 10, 2 << 10, 4 << 10} {
			for _, how := range []string{"syscalls", "window"} {
				b.Run(fmt.Sprintf("before=%dKiB/%d/%s", before>>10, n, how), func(b *testing.B) {
					benchSmallWrites(b, before, n, how == "window")
				})
			}
		}
	}
}

func benchSmallWrites(b *testing.B, before, n int, window bool) {
	const size = 16 << 20
	opened, err := OS().Create(filepath.Join(b.TempDir(), "f"), CatLog)
	must(b, err)
	defer closeFile(b, opened)
	f := opened.(*osFile)
	for off := 0; off < size; off += before {
		_, err := f.WriteAt(make([]byte, before), int64(off))
		must(b, err)
	}
	if window {
		f.WillWrite(0, size)
	}
	p, off := make([]byte, n), int64(0)
	b.SetBytes(int64(n))
	for b.Loop() {
		if off%(4<<20) == 0 { // pages become writable again after each sync
			b.StopTimer()
			must(b, f.SyncData())
			b.StartTimer()
		}
		if !window || !f.window.write(f.fd, p, off) { // WriteAt takes no window for long ones
			_, err := f.WriteAt(p, off)
			must(b, err)
		}
		off = (off + int64(n)) % size
	}
}
