//go:build linux

package diskfull

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/tests/kill"
	"github.com/stoatdb/stoat/tests/mount"
	"github.com/stoatdb/stoat/vfs"
)

// TestDiskFull fills real disks: small ones, of bytes and of files, and one
// that lets no file grow beyond a limit. To the writers a full disk is
// ErrNoSpace and nothing else; reads go on, the database opens on the full
// disk, nothing that was committed is lost, and when there is space again the
// writers go on as well.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	sizes := dose.Size(t, dose.Sizes, 1, 3)
	dose.Reproduce(t, "diskfull")
	for i := range sizes {
		rng := rand.New(rand.NewPCG(seed+uint64(i), 3<<32))
		fill := fullKinds[i%len(fullKinds)]
		t.Run(fmt.Sprintf("%s/%d", fill.name, i), func(t *testing.T) {
			t.Parallel()
			fill.run(t, seed+uint64(i), rng)
		})
	}
}

var fullKinds = []struct {
	name string
	run  func(t *testing.T, seed uint64, rng *rand.Rand)
}{
	{"bytes", func(t *testing.T, seed uint64, rng *rand.Rand) {
		size := int64(1<<20) << rng.IntN(5)
		size += rng.Int64N(size/2) &^ 4095
		d := newSmallDisk(t, size, 0)
		testkit.Must(t, os.WriteFile(d.ballast(0), make([]byte, size/3), 0o600))
		d.ballasts = 1
		t.Logf("seed %d: %d bytes", seed, size)
		testkit.Must(t, newFullRun(d.dir, seed, size).run(d.makeRoom(rng)))
	}},
	{"files", func(t *testing.T, seed uint64, rng *rand.Rand) {
		const size = 24 << 20
		files := 12 + rng.IntN(20)
		d := newSmallDisk(t, size, files)
		for d.ballasts < files/3 {
			testkit.Must(t, os.WriteFile(d.ballast(d.ballasts), nil, 0o600))
			d.ballasts++
		}
		t.Logf("seed %d: %d files, %d of them ballast", seed, files, d.ballasts)
		testkit.Must(t, newFullRun(d.dir, seed, size).run(d.makeRoom(rng)))
	}},
	// Some limits hold a segment of the log and some do not.
	{"file size", func(t *testing.T, seed uint64, rng *rand.Rand) {
		limit := int64(16<<10) << rng.IntN(8)
		t.Logf("seed %d: files of %d bytes at most", seed, limit)
		runLimited(t, seed, limit)
	}},
}

// A smallDisk is a tmpfs with ballast on it.
type smallDisk struct {
	dir      string
	size     int64
	files    int
	ballasts int
}

// newSmallDisk mounts a tmpfs for some bytes and, unless 0, files.
func newSmallDisk(t *testing.T, size int64, files int) *smallDisk {
	t.Helper()
	d := &smallDisk{dir: t.TempDir(), size: size, files: files}
	switch err := syscall.Mount("tmpfs", d.dir, "tmpfs", 0, d.options()); {
	case err == nil:
	case mount.IsLacking(err):
		t.Skip("this user may not mount:", err)
	default:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mount.Unmount(d.dir); err != nil {
			t.Error("a file is still open:", err)
			_ = syscall.Unmount(d.dir, syscall.MNT_DETACH)
		}
	})
	return d
}

func (d *smallDisk) options() string {
	return fmt.Sprintf("size=%d,nr_inodes=%d", d.size, d.files)
}

func (d *smallDisk) ballast(i int) string { return filepath.Join(d.dir, fmt.Sprint("ballast", i)) }

// makeRoom throws the ballast away or makes the disk larger. A disk of few
// files may have become full of bytes instead, and to get out of its state the
// database may need far more files for a while, so that it gets plenty of both.
func (d *smallDisk) makeRoom(rng *rand.Rand) func() error {
	throwAway := rng.IntN(3) > 0
	return func() error {
		if throwAway {
			for i := range d.ballasts {
				if err := os.Remove(d.ballast(i)); err != nil {
					return err
				}
			}
		}
		if !throwAway || d.files > 0 {
			d.size, d.files = 4*d.size, 8*d.files
			return syscall.Mount("", d.dir, "", syscall.MS_REMOUNT, d.options())
		}
		return nil
	}
}

// limitEnv makes this test binary fill a database under a limit of the size
// of files. The limit counts for a whole process, so it is one of its own.
const limitEnv = "STOAT_TEST_LIMIT"

func init() {
	if words := os.Getenv(limitEnv); words != "" {
		os.Exit(fillLimited(strings.Split(words, "\n")))
	}
}

func runLimited(t *testing.T, seed uint64, limit int64) {
	t.Helper()
	exe, err := os.Executable()
	testkit.Must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%d\n%d", limitEnv, t.TempDir(), seed, limit))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("the process: %v: %s", err, said.String())
	}
}

// fillLimited is the process under a limit. With the error comes a signal,
// SIGXFSZ, which Go programs ignore unless they ask for it.
func fillLimited(words []string) int {
	seed, err := strconv.ParseUint(words[1], 10, 64)
	limit, err2 := strconv.ParseUint(words[2], 10, 64)
	if err = errors.Join(err, err2); err == nil {
		err = underLimit(words[0], seed, limit)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func underLimit(dir string, seed, limit uint64) error {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	f := newFullRun(dir, seed, 4<<20)
	f.squeeze = func() error {
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: before.Max})
	}
	f.squeezeAfter = 1 + f.rng.Int64N(int64(f.most))
	return f.run(func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before) })
}

// run takes the database through a life in which the disk becomes full, one
// on the full disk, and one in which there is room again.
func (f *fullRun) run(makeRoom func() error) error {
	return kill.InTime(func() error {
		if err := f.opening(f.fillUp); err != nil {
			return fmt.Errorf("filling: %w", err)
		}
		if err := f.opening(f.stayFull); err != nil {
			return fmt.Errorf("opened on a full disk: %w", err)
		}
		if err := f.opening(func(db *stoat.DB) error {
			f.roomy = true
			return errors.Join(makeRoom(), f.goOn(db))
		}); err != nil {
			return fmt.Errorf("with room again: %w", err)
		}
		if err := f.opening(func(*stoat.DB) error { return nil }); err != nil || !kill.Encrypted(f.plan.Seed) {
			return err
		}
		return testkit.NoSentinel(vfs.OS(), f.dir)
	})
}
