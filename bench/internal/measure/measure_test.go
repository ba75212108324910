package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestDirSpace_CountsLengthsAndBlocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "full"), make([]byte, 10000), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(1<<30), f.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := DirSpace(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s.Files != 2 || s.ApparentBytes != 1<<30+10000 {
		t.Errorf("%d files of %d bytes, want 2 of %d", s.Files, s.ApparentBytes, 1<<30+10000)
	}
	if runtime.GOOS == "linux" && s.AllocatedBytes > 1<<20 {
		t.Errorf("%d bytes allocated for 10,000 written", s.AllocatedBytes)
	}
}

func TestUsage_CountsWrittenBytes(t *testing.T) {
	before := ProcessUsage()
	if !before.Known {
		t.Skip("this system does not tell what a process uses")
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	// A file system in memory counts nothing. A device counts at least this.
	if got := ProcessUsage().Sub(before).WrittenBytes; got != 0 && got < 1<<20 {
		t.Errorf("%d bytes written, want at least %d", got, 1<<20)
	}
}

func TestSampler_SeesThePeakAndTheCurve(t *testing.T) {
	if !ProcessMemory().Known {
		t.Skip("this system does not tell what a process occupies")
	}
	dir := t.TempDir()
	s := StartSampler(dir, func() float64 { return 42 })
	buf, err := OffHeap(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(buf); i += 4096 {
		buf[i] = 1
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	peaks, curve := s.Stop()
	if peaks.AnonymousBytes < 64<<20 {
		t.Errorf("peak of %d anonymous bytes with 64 MiB in use", peaks.AnonymousBytes)
	}
	if len(curve) == 0 || curve[len(curve)-1].Value != 42 {
		t.Errorf("curve %v, want it to end at 42", curve)
	}
	runtime.KeepAlive(buf)
}

func TestThin_KeepsTheLastPoint(t *testing.T) {
	t.Parallel()
	for n := range 50 {
		var points []Point
		for i := range n {
			points = append(points, Point{Seconds: float64(i)})
		}
		got := thin(points, 7)
		if len(got) > 7 {
			t.Errorf("%d of %d points kept, want at most 7", len(got), n)
		}
		if n > 0 && got[len(got)-1] != points[n-1] {
			t.Errorf("the last of %d points is gone", n)
		}
	}
}

func TestMemoryLimit_IsCreatedOrRefusedWithAReason(t *testing.T) {
	m, err := NewMemoryLimit(fmt.Sprintf("stoat-bench-test-%d", os.Getpid()), 256<<20)
	if errors.Is(err, ErrNoMemoryLimit) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if m.Killed() {
		t.Error("a new group says that a process was killed")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(m.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group still exists: %v", err)
	}
}
