package log

import (
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// nullFS is a file system whose files accept writes and syncs and do nothing.
// It isolates the cost of the log itself.
type nullFS struct{ vfs.FS }

type nullFile struct{ vfs.File }

func (fs nullFS) Create(name string, cat vfs.Category) (vfs.File, error) {
	f, err := fs.FS.Create(name, cat)
	return nullFile{f}, err
}

func (fs nullFS) OpenReadWrite(name string, cat vfs.Category) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, cat)
	return nullFile{f}, err
}

func (nullFile) WriteAt(p []byte, off int64) (int, error) { return len(p), nil }
func (nullFile) SyncData() error                          { return nil }

func benchOptions(b *testing.B, fs vfs.FS, dir string) Options {
	b.Helper()
	return Options{FS: fs, Dir: dir, Random: rand.New(rand.NewPCG(1, 1)).Uint64}
}

func benchWriter(b *testing.B, o Options) *Writer {
	b.Helper()
	w, _, err := open(o, nil, nil)
	must(b, err)
	b.Cleanup(func() { _ = w.Close() })
	return w
}

// BenchmarkBuild measures a group of one record up to the write: Reserve, Begin,
// Write, End, Flush.
func BenchmarkBuild(b *testing.B) {
	for _, bench := range []struct {
		name string
		size int
	}{{"150B", 150}, {"4KiB", 4 << 10}, {"150KB", 150_000}, {"4MiB", 4 << 20}} {
		b.Run(bench.name, func(b *testing.B) {
			w := benchWriter(b, benchOptions(b, nullFS{newTestDisk(b)}, testDir))
			p := make([]byte, bench.size)
			b.SetBytes(int64(bench.size))
			b.ReportAllocs()
			last := w.b.Offset()
			for b.Loop() {
				if err := w.Reserve(int64(len(p))); err != nil {
					b.Fatal(err)
				}
				if w.b.Offset() < last {
					must(b, w.Release(w.Segment()))
				}
				last = w.b.Offset()
				w.Begin()
				w.Write(p)
				w.End()
				if err := w.Flush(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCopyAndChecksum measures the lower bound for BenchmarkBuild.
func BenchmarkCopyAndChecksum(b *testing.B) {
	for _, bench := range []struct {
		name string
		size int
	}{{"150B", 150}, {"4KiB", 4 << 10}, {"150KB", 150_000}} {
		b.Run(bench.name, func(b *testing.B) {
			p := make([]byte, bench.size)
			buf := make([]byte, bench.size)
			b.SetBytes(int64(bench.size))
			sum := uint64(0)
			for b.Loop() {
				copy(buf, p)
				sum += base.Checksum(buf, sum)
			}
		})
	}
}

// BenchmarkCommit measures one durable commit of a small record through the log.
// BenchmarkBareCommit measures the same bytes by pwrite and fdatasync on a file
// with pre-written blocks.
func BenchmarkCommit(b *testing.B) {
	w := benchWriter(b, benchOptions(b, vfs.OS(), b.TempDir()))
	p := make([]byte, 150)
	for b.Loop() {
		if err := w.Reserve(int64(len(p))); err != nil {
			b.Fatal(err)
		}
		w.Begin()
		w.Write(p)
		w.End()
		must(b, w.Flush())
		must(b, w.Sync())
	}
}

func BenchmarkBareCommit(b *testing.B) {
	f, err := vfs.OS().Create(vfs.OS().Join(b.TempDir(), "bare"), vfs.CatLog)
	must(b, err)
	defer f.Close()
	const size = 4 << 20
	must(b, writeZeros(f, 0, size))
	must(b, f.SyncData())
	frame := make([]byte, record.FrameSize(150))
	frame[0] = 1
	for off := int64(0); b.Loop(); off = (off + int64(len(frame))) % (size - 4096) {
		_, err := f.WriteAt(frame, off)
		must(b, err)
		must(b, f.SyncData())
	}
}

// BenchmarkGrowingCommit is BenchmarkBareCommit on a file that grows.
func BenchmarkGrowingCommit(b *testing.B) {
	f, err := vfs.OS().Create(vfs.OS().Join(b.TempDir(), "growing"), vfs.CatLog)
	must(b, err)
	defer f.Close()
	frame := make([]byte, record.FrameSize(150))
	frame[0] = 1
	for off := int64(0); b.Loop(); off += int64(len(frame)) {
		_, err := f.WriteAt(frame, off)
		must(b, err)
		must(b, f.SyncData())
	}
}

// BenchmarkTwoLanes measures durable commits by two goroutines whose syncs overlap.
func BenchmarkTwoLanes(b *testing.B) {
	w := benchWriter(b, benchOptions(b, vfs.OS(), b.TempDir()))
	g := &groupCommitter{w: w}
	b.SetParallelism(1)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := g.commit(1); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkOpen measures Recover and Create after a clean close.
func BenchmarkOpen(b *testing.B) {
	o := benchOptions(b, vfs.OS(), b.TempDir())
	w, spans, err := open(o, nil, nil)
	must(b, err)
	for b.Loop() {
		b.StopTimer()
		must(b, w.Close())
		b.StartTimer()
		if w, spans, err = open(o, spans, nil); err != nil {
			b.Fatal(err)
		}
		must(b, w.Release(spans[0].First.Number))
	}
	must(b, w.Close())
}

// BenchmarkReplay measures Recover of small transactions.
func BenchmarkReplay(b *testing.B) {
	o := benchOptions(b, vfs.OS(), b.TempDir())
	w, spans, err := open(o, nil, nil)
	must(b, err)
	const n = 100_000
	p := make([]byte, 150)
	for range n {
		must(b, appendTx(w, p))
	}
	must(b, w.Close())
	b.SetBytes(n * record.FrameSize(150))
	for b.Loop() {
		r, err := recoverAll(o, spans, func([]byte) error { return nil })
		if err != nil || r.Records != n {
			b.Fatalf("%d records: %v", r.Records, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
}
