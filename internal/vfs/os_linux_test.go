package vfs

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPopulateFallsBackToReading uses the path of kernels that cannot
// populate mappings.
func TestPopulateFallsBackToReading(t *testing.T) {
	t.Parallel()
	fs := OS()
	name := fs.Join(t.TempDir(), "a")
	f := create(t, fs, name, string(make([]byte, 200_000)))
	write(t, f, 150_000, "far")
	file := f.(*osFile)
	if !file.acquire() {
		t.Fatal("the file is closed")
	}
	m := &osMapping{file: file, holdsFile: true}
	must(t, m.open(200_000))
	closeFile(t, f)
	must(t, fs.Remove(name))
	must(t, m.Populate(1, 199_999))
	wantContents(t, string(m.Bytes()[150_000:150_003]), "far")
	must(t, m.touch(0, 200_000))
	wantIs(t, m.touch(199_999, 2), io.ErrUnexpectedEOF)
	closeFile(t, m)
	if _, err := unix.FcntlInt(uintptr(file.fd), unix.F_GETFD, 0); err == nil && file.users.Load() != 1 {
		t.Fatal("the mapping left the descriptor open")
	}
}

func TestPopulateBeyondTheFileIsAnErrorNotASignal(t *testing.T) {
	t.Parallel()
	if !canPopulate() {
		t.Skip("this kernel cannot populate mappings")
	}
	f := create(t, OS(), OS().Join(t.TempDir(), "a"), string(make([]byte, 3*memPage)))
	defer closeFile(t, f)
	m, err := f.Map(3 * memPage)
	must(t, err)
	defer closeFile(t, m)
	// What must not happen, to see that it does no harm.
	must(t, f.Truncate(memPage))
	wantIs(t, m.Populate(2*memPage, memPage), ErrIO)
}

func TestPreallocateReservesBlocks(t *testing.T) {
	t.Parallel()
	fs := OS()
	name := fs.Join(t.TempDir(), "a")
	f := create(t, fs, name, "")
	defer closeFile(t, f)
	if err := unix.Fallocate(f.(*osFile).fd, 0, 0, 1); err != nil {
		t.Skip("this file system cannot reserve:", err)
	}
	must(t, f.Preallocate(0, 1<<20))
	info, err := fs.Stat(name)
	must(t, err)
	if info.Allocated < 1<<20 {
		t.Fatalf("%d bytes are allocated, want 1 MiB", info.Allocated)
	}
}

func TestGrowNeverCuts(t *testing.T) {
	t.Parallel()
	f := create(t, OS(), OS().Join(t.TempDir(), "a"), "12345678")
	defer closeFile(t, f)
	fd := f.(*osFile).fd
	must(t, grow(fd, 4))
	wantContents(t, contents(t, f), "12345678")
	must(t, grow(fd, 10))
	wantContents(t, contents(t, f), "12345678\x00\x00")
}

// benchFile makes a file whose blocks are all written and durable, as a
// recycled log segment is.
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

// BenchmarkSyncedWrite writes 4 KiB in place and syncs it, through File, by
// the bare system calls, and through os.File.
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

// BenchmarkColdPopulate brings single pages, and runs of pages, of a mapping
// in from the device.
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
					if err := m.Populate(rng.Int64N(bytes/size)*size, size); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
