package vfs

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestMapping_TouchReadsWithoutPopulate does not run in parallel because it changes a
// package variable and counts descriptors.
func TestMapping_TouchReadsWithoutPopulate(t *testing.T) {
	fs, before := OS(), openDescriptors(t)
	WithoutPopulate(func() {
		f := create(t, fs, fs.Join(t.TempDir(), "a"), string(make([]byte, 200_000)))
		m, err := f.Map(200_000)
		must(t, err)
		closeFile(t, f)
		mapping := m.(*osMapping)
		must(t, mapping.touch(0, 200_000))
		wantIs(t, mapping.touch(199_999, 2), io.ErrUnexpectedEOF)
		closeFile(t, m)
	})
	if after := openDescriptors(t); after != before {
		t.Fatalf("%d descriptors are open, %d were before", after, before)
	}
}

func TestPopulate_BeyondTheFileIsAnErrorNotASignal(t *testing.T) {
	t.Parallel()
	if !canPopulate() {
		t.Skip("this kernel cannot populate mappings")
	}
	page := int64(pageSize)
	f := create(t, OS(), OS().Join(t.TempDir(), "a"), string(make([]byte, 3*page)))
	defer closeFile(t, f)
	m, err := f.Map(3 * page)
	must(t, err)
	defer closeFile(t, m)
	// Callers must not truncate a mapped range. If one does, Populate returns an error.
	must(t, f.Truncate(page))
	wantIs(t, populateOf(m)(2*page, page), ErrIO)
}

// TestPopulate_ReadsNoMoreThanAsked checks the page cache. Read-ahead around a random read
// would cost megabytes per page.
func TestPopulate_ReadsNoMoreThanAsked(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	f := create(t, OS(), OS().Join(t.TempDir(), "a"), string(make([]byte, size)))
	defer closeFile(t, f)
	must(t, f.Sync())
	must(t, unix.Fadvise(f.(*osFile).fd, 0, size, unix.FADV_DONTNEED))
	m, err := f.Map(size)
	must(t, err)
	defer closeFile(t, m)
	if resident(t, m.Bytes()) > 0 {
		t.Skip("this file system does not give its pages up")
	}
	must(t, populateOf(m)(size/2, 100))
	if got := resident(t, m.Bytes()); got < 1 || got > 16 {
		t.Fatalf("populating 100 bytes read %d pages", got)
	}
	must(t, populateOf(m)(0, 1<<20))
	if got := resident(t, m.Bytes()); got < 256 || got > 512 {
		t.Fatalf("populating 1 MiB left %d pages in memory", got)
	}
}

// Populate maps recently written data in windows, so that the first reads of it do not
// cost a system call each. If the page cache lacks a page of a window, here in a hole of
// the file, Populate waits only for the requested range.
func TestPopulate_MapsWhatThePageCacheHolds(t *testing.T) {
	t.Parallel()
	page := int64(pageSize)
	const tail, size = 3 * mapWindowSize, 3*mapWindowSize + 100
	f := create(t, OS(), OS().Join(t.TempDir(), "a"), string(make([]byte, 2*mapWindowSize+page)))
	defer closeFile(t, f)
	_, err := f.WriteAt(make([]byte, size-tail), tail)
	must(t, err)
	m, err := f.Map(size)
	must(t, err)
	defer closeFile(t, m)
	brings := func(off, n, want int64) {
		t.Helper()
		got, err := m.Populate(off, n)
		must(t, err)
		if got != want {
			t.Fatalf("populating %d bytes at %d brings %d, want %d", n, off, got, want)
		}
	}
	if !canPopulate() {
		brings(10, 100, 100)
		return
	}
	brings(10, 100, mapWindowSize)
	brings(mapWindowSize-200, 100, 0)
	brings(mapWindowSize-50, 100, mapWindowSize)
	brings(tail+10, 10, size-tail)
	must(t, m.DontNeed(0, mapWindowSize))
	brings(mapWindowSize-50, 100, mapWindowSize)
	brings(mapWindowSize+50, 100, 0)
	must(t, m.DontNeed(0, 2*mapWindowSize))
	brings(0, 2*mapWindowSize, 2*mapWindowSize)
	brings(mapWindowSize-50, 100, 0)

	hole := m.Bytes()[2*mapWindowSize+page : tail]
	brings(2*mapWindowSize, 100, 100)
	if n := resident(t, hole); n > 0 {
		t.Errorf("%d pages came along that the page cache did not have", n)
	}
	brings(2*mapWindowSize+page, 100, 100)
	if n := resident(t, hole); n > len(hole)/pageSize/2 {
		t.Errorf("%d pages came along with one", n)
	}
	brings(2*mapWindowSize, mapWindowSize, mapWindowSize)
	brings(2*mapWindowSize+page, 100, 0)
}

func TestMapping_KeepUsedAppliesToAllOfItUntilAnyPartIsNotNeeded(t *testing.T) {
	t.Parallel()
	f := create(t, OS(), OS().Join(t.TempDir(), "a"), string(make([]byte, 10*pageSize+7)))
	defer closeFile(t, f)
	m, err := f.Map(int64(10*pageSize + 7))
	must(t, err)
	defer closeFile(t, m)
	wantRandom := func(want bool) {
		t.Helper()
		if random, pages := advised(t, m.Bytes()); random != want || pages < 11 {
			t.Fatalf("the part of %d pages at the front has random access: %t, want %t", pages, random, want)
		}
	}
	wantRandom(true)
	for range 2 {
		must(t, m.KeepUsed())
		must(t, m.KeepUsed())
		wantRandom(false)
		must(t, m.DontNeed(0, int64(pageSize)))
		wantRandom(true)
	}
}

// advised reports whether the front of a mapping has the advice MADV_RANDOM, and how many
// pages from there on have the same advice.
func advised(t *testing.T, b []byte) (random bool, pages int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	must(t, err)
	front := uint64(uintptr(unsafe.Pointer(&b[0])))
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			pages = 0
			if from <= front && front < to {
				pages = int(to-front) / pageSize
			}
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && pages > 0 {
			return slices.Contains(strings.Fields(flags), "rr"), pages
		}
	}
	t.Fatal("smaps does not tell the advice")
	return false, 0
}

// resident returns the number of pages of a mapping that the page cache holds.
func resident(t *testing.T, b []byte) (pages int) {
	t.Helper()
	in := make([]byte, (len(b)+pageSize-1)/pageSize)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE,
		uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&in[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range in {
		pages += int(p & 1)
	}
	return pages
}

func TestPreallocate_ReservesBlocks(t *testing.T) {
	t.Parallel()
	fs := OS()
	name := fs.Join(t.TempDir(), "a")
	f := create(t, fs, name, "")
	defer closeFile(t, f)
	if err := unix.Fallocate(f.(*osFile).fd, 0, 0, 1); err != nil {
		t.Skip("this file system cannot reserve:", err)
	}
	reserved, err := f.Preallocate(0, 1<<20)
	must(t, err)
	if !reserved {
		t.Error("Preallocate does not say that it has reserved")
	}
	info, err := fs.Stat(name)
	must(t, err)
	if info.Allocated < 1<<20 {
		t.Fatalf("%d bytes are allocated, want 1 MiB", info.Allocated)
	}
}

func TestGrow_NeverTruncates(t *testing.T) {
	t.Parallel()
	f := create(t, OS(), OS().Join(t.TempDir(), "a"), "12345678")
	defer closeFile(t, f)
	fd := f.(*osFile).fd
	must(t, grow(fd, 4))
	wantContents(t, contents(t, f), "12345678")
	must(t, grow(fd, 10))
	wantContents(t, contents(t, f), "12345678\x00\x00")
}

// benchFile creates a file whose blocks are all written and durable, like those of a
// recycled log segment.
func benchFile(b *testing.B, bytes int) string {
	b.Helper()
	name := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, bytes), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	_ = f.Close()
	return name
}

// BenchmarkSyncedWrite writes 4 KiB in place and syncs it, with File, with system calls,
// and with os.File.
func BenchmarkSyncedWrite(b *testing.B) {
	const bytes = 16 << 20
	block := make([]byte, 4096)
	run := func(b *testing.B, write func(off int64) error) {
		off := int64(0)
		for b.Loop() {
			if err := write(off); err != nil {
				b.Fatal(err)
			}
			off = (off + 4096) % bytes
		}
	}
	b.Run("File", func(b *testing.B) {
		f, err := OS().OpenReadWrite(benchFile(b, bytes), CatLog)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		run(b, func(off int64) error {
			if _, err := f.WriteAt(block, off); err != nil {
				return err
			}
			return f.SyncData()
		})
	})
	b.Run("raw", func(b *testing.B) {
		fd, err := unix.Open(benchFile(b, bytes), unix.O_RDWR, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = unix.Close(fd) }()
		run(b, func(off int64) error {
			if _, err := unix.Pwrite(fd, block, off); err != nil {
				return err
			}
			return unix.Fdatasync(fd)
		})
	})
	b.Run("os.File", func(b *testing.B) {
		f, err := os.OpenFile(benchFile(b, bytes), os.O_RDWR, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		run(b, func(off int64) error {
			if _, err := f.WriteAt(block, off); err != nil {
				return err
			}
			return f.Sync()
		})
	})
}

// BenchmarkWarmRead reads 128 bytes that are in the page cache.
func BenchmarkWarmRead(b *testing.B) {
	name := benchFile(b, 1<<20)
	buf := make([]byte, 128)
	run := func(b *testing.B, f io.ReaderAt) {
		for b.Loop() {
			if _, err := f.ReadAt(buf, 4096); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("File", func(b *testing.B) {
		f, err := OS().Open(name, CatTable)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		run(b, f)
	})
	b.Run("os.File", func(b *testing.B) {
		f, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		run(b, f)
	})
}

// BenchmarkColdPopulate populates single pages and runs of pages of a mapping from the
// device.
func BenchmarkColdPopulate(b *testing.B) {
	const bytes = 256 << 20
	name := benchFile(b, bytes)
	for _, size := range []int64{4 << 10, 64 << 10} {
		for _, random := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d KiB, random advice %v", size>>10, random), func(b *testing.B) {
				f, err := OS().Open(name, CatTable)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = f.Close() }()
				m, err := f.Map(bytes)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = m.Close() }()
				if !random {
					if err := unix.Madvise(m.Bytes(), unix.MADV_NORMAL); err != nil {
						b.Fatal(err)
					}
				}
				if err := m.DontNeed(0, bytes); err != nil {
					b.Fatal(err)
				}
				if err := unix.Fadvise(f.(*osFile).fd, 0, bytes, unix.FADV_DONTNEED); err != nil {
					b.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(1, 2))
				b.SetBytes(size)
				for b.Loop() {
					if _, err := m.Populate(rng.Int64N(bytes/size)*size, size); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// ext4 and XFS return these errors when a checksum or a structure is wrong.
func TestWrapError_DamagedFileSystemIsErrIO(t *testing.T) {
	t.Parallel()
	for _, errno := range []unix.Errno{unix.EUCLEAN, unix.EBADMSG} {
		wantIs(t, WrapError(OpRead, "a", errno), ErrIO)
	}
}

// After a failed write-back, a sync on XFS returns what the block device has told.
func TestWrapError_FailedDeviceIsErrIO(t *testing.T) {
	t.Parallel()
	for _, errno := range []unix.Errno{unix.EIO, unix.ENODATA, unix.EREMOTEIO, unix.ENOLINK, unix.ETIMEDOUT, unix.EBADE} {
		wantIs(t, WrapError(OpSyncData, "a", errno), ErrIO)
	}
}

// To sync a directory needs permission to read it. To make a directory in it does not.
func TestMkdirAll_RemovesADirectoryWhoseNameItCannotSync(t *testing.T) {
	t.Parallel()
	parent, err := os.MkdirTemp("", "unreadable")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(parent)) })
	must(t, os.Chmod(parent, 0o300))
	if os.Geteuid() == 0 {
		// Root may read each directory, so another user makes them, on this thread only.
		const nobody = 65534
		must(t, os.Chown(parent, nobody, nobody))
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must(t, unix.Setfsuid(nobody))
		defer func() { must(t, unix.Setfsuid(0)) }()
	}
	wantIs(t, OS().MkdirAll(filepath.Join(parent, "new", "deep")), ErrPermission)
	_, err = OS().Stat(filepath.Join(parent, "new"))
	wantIs(t, err, ErrNotExist)
}
