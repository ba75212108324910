package vfs

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkWriteBackBesideSyncs appends to a file and syncs it while a second goroutine
// writes large files. The second goroutine uses a WriteBack, or starts writes to the
// device without waiting for them.
func BenchmarkWriteBackBesideSyncs(b *testing.B) {
	for _, inStep := range []bool{false, true} {
		for _, size := range []int{4 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("instep=%t/bytes=%d", inStep, size), func(b *testing.B) { benchmarkBesideSyncs(b, inStep, size) })
		}
	}
}

func benchmarkBesideSyncs(b *testing.B, inStep bool, size int) {
	fs, dir := OS(), b.TempDir()
	const segment = 256 << 20
	f, err := fs.Create(fs.Join(dir, "log"), CatLog)
	must(b, err)
	defer closeFile(b, f)
	_, err = f.Preallocate(0, segment)
	must(b, err)
	var stop atomic.Bool
	written, done := int64(0), make(chan error, 1)
	go func() {
		var err error
		for n := 0; err == nil && !stop.Load(); n++ {
			err = writeLarge(fs, fs.Join(dir, fmt.Sprint("values", n)), inStep)
			written += largeFile
		}
		done <- err
	}()
	p := make([]byte, size)
	var took []time.Duration
	b.SetBytes(int64(size))
	b.ResetTimer()
	began := time.Now()
	for at := int64(0); b.Loop(); at = (at + int64(size)) % segment {
		one := time.Now()
		_, err := f.WriteAt(p, at)
		must(b, err)
		must(b, f.SyncData())
		took = append(took, time.Since(one))
	}
	seconds := time.Since(began).Seconds()
	stop.Store(true)
	must(b, <-done)
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
	b.ReportMetric(float64(written)/1e6/seconds, "beside-MB/s")
}

// largeFile is the size of the files that writeLarge writes, in bytes.
const largeFile = 64 << 20

// writeLarge writes a large file and removes it.
func writeLarge(fs FS, name string, inStep bool) (err error) {
	f, err := fs.Create(name, CatValue)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if e := fs.Remove(name); err == nil {
			err = e
		}
	}()
	back, p := NewWriteBack(f), make([]byte, 1<<20)
	for i := range p {
		p[i] = byte(i * 131 >> 3)
	}
	for off := int64(0); off < largeFile; {
		if _, err := f.WriteAt(p, off); err != nil {
			return err
		}
		off += int64(len(p))
		if inStep {
			err = back.Reached(off)
		} else if off%(4<<20) == 0 {
			err = f.SyncRange(off-4<<20, 4<<20)
		}
		if err != nil {
			return err
		}
	}
	return f.SyncData()
}
