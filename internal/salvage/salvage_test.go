package salvage_test

import (
	"bytes"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/dump"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/salvage"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const to = "/to"

func optionsFor(fs vfs.FS, random *rand.Rand) salvage.Options {
	return salvage.Options{FS: fs, From: testkit.Dir, To: to, Clock: testkit.NewClock(), Random: random.Uint64,
		Entropy: crand.Reader, Stop: func() error { return nil }}
}

// entriesOf returns the lines of a dump about the entries of all tables of a directory,
// without what depends on the files.
func entriesOf(t *testing.T, disk *memfs.FS, dir string) []string {
	t.Helper()
	names, err := disk.List(dir)
	testkit.Must(t, err)
	var lines []string
	for _, name := range names {
		if !strings.HasSuffix(name, ".table") {
			continue
		}
		var out bytes.Buffer
		testkit.Must(t, dump.Run(t.Context(), dump.Options{FS: disk, Name: disk.Join(dir, name), Out: &out, ValueMax: 8}))
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "entry") || strings.HasPrefix(line, "range tombstone") {
				line, _, _ = strings.Cut(line, " value-file=")
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return lines
}

func TestMerge_ManySourcesAndSmallMemoryChangeNothing(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	var want []string
	for i, limits := range [][2]int{{0, 0}, {2, 2000}, {3, 100}} {
		for _, ignore := range []bool{false, true} {
			disk := disk.Clone()
			o := optionsFor(disk, rand.New(rand.NewPCG(1, 1)))
			o.FanIn, o.SpillSize, o.IgnoreManifest = limits[0], limits[1], ignore
			report, err := salvage.Run(t.Context(), o)
			testkit.Must(t, err)
			if len(report.Lost) > 0 {
				t.Errorf("an intact database has losses: %+v", report.Lost)
			}
			got := entriesOf(t, disk, to)
			if i == 0 && !ignore {
				want = got
			}
			if !ignore && strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("fan-in %d and %d bytes give %d entries, want the %d of the defaults", limits[0], limits[1], len(got), len(want))
			}
			names, err := disk.List(to)
			testkit.Must(t, err)
			state, err := manifest.LoadDamaged(disk, to, nil)
			testkit.Must(t, err)
			tables := 0
			for _, level := range state.Version.Levels {
				tables += len(level)
			}
			if len(names) != tables+len(state.Version.Values)+2 {
				t.Errorf("beside the manifest and the lock, want %d tables and %d value files; the directory has %q", tables, len(state.Version.Values), names)
			}
		}
	}
}

// Such a file may be intact, so nothing is lost.
func TestRun_AFileThatItMayNotOpenIsNoLoss(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	for _, cause := range []error{vfs.ErrTooManyFiles, vfs.ErrPermission} {
		for _, path := range []string{".table", ".values", ".log", "MANIFEST", to + ".tmp"} {
			disk := disk.Clone()
			fs := faultfs.New(disk)
			fault := fs.Add(faultfs.Rule{Op: vfs.OpOpen, Path: path, Err: cause})
			o := optionsFor(fs, rand.New(rand.NewPCG(1, 1)))
			o.FanIn, o.SpillSize, o.IgnoreManifest = 2, 2000, true
			report, err := salvage.Run(t.Context(), o)
			if fault.Fired() == 0 || !errors.Is(err, cause) {
				t.Errorf("%v for %s: error %v, %d losses", cause, path, err, len(report.Lost))
			}
			for _, dir := range []string{to, to + ".tmp"} {
				if _, err := disk.Stat(dir); !errors.Is(err, vfs.ErrNotExist) {
					t.Errorf("%v for %s: %s is left, %v", cause, path, dir, err)
				}
			}
		}
	}
}

func TestRun_LostValuesHaveTheNameOfTheirFile(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	fs := faultfs.New(disk)
	fs.Add(faultfs.Rule{Op: vfs.OpOpen, Path: testkit.Dir + "/*.values", Forever: true, Err: vfs.ErrIO})
	report, err := salvage.Run(t.Context(), optionsFor(fs, rand.New(rand.NewPCG(1, 1))))
	if err != nil || len(report.Lost) == 0 {
		t.Errorf("without value files: %+v, %v", report, err)
	}
	for _, l := range report.Lost {
		if !strings.HasSuffix(l.File, ".values") || l.Entries == 0 || !errors.Is(l.Err, vfs.ErrIO) {
			t.Errorf("the loss is %+v", l)
		}
	}
}

// One call of the file system fails. Then there is no new database, or a complete
// one, or one without what the report lists as lost.
func TestRun_AFailedCallLosesNothingInSilence(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	run := func(fs vfs.FS) (salvage.Report, error) {
		return salvage.Run(t.Context(), optionsFor(fs, rand.New(rand.NewPCG(1, 1))))
	}
	intact := disk.Clone()
	full, err := run(intact)
	testkit.Must(t, err)
	failed := 0
	for n := int64(1); ; n += 1 + n/16 {
		disk := disk.Clone()
		fs := faultfs.New(disk)
		fault := fs.Add(faultfs.Rule{Nth: n})
		report, err := run(fs)
		if fault.Fired() == 0 {
			break
		}
		_, op := fs.Failed()
		_, missing := disk.Stat(to)
		switch complete := report.Entries == full.Entries && report.Values == full.Values; {
		case err != nil:
			if failed++; !errors.Is(missing, vfs.ErrNotExist) {
				t.Fatalf("%v failed, and the new directory exists: %v", op, err)
			}
		case !complete && len(report.Lost) == 0:
			t.Fatalf("%v failed, and %d of %d entries were copied without a loss: %+v", op, report.Entries, full.Entries, report)
		}
	}
	if failed == 0 {
		t.Error("no call failed")
	}
}

// The system may take a name for durable whose sync has failed.
func TestRun_AfterAFailedSyncOfItsNameTheNewDirectoryIsMadeAnew(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	fs := faultfs.New(disk)
	run := func() error {
		_, err := salvage.Run(t.Context(), optionsFor(fs, rand.New(rand.NewPCG(1, 1))))
		return err
	}
	fs.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpRename && op.NewPath == to {
			fs.Add(faultfs.Rule{Op: vfs.OpSyncDir, Sync: vfs.SyncDropped})
		}
	})
	testkit.WantError(t, "a run that cannot sync the name", run(), vfs.ErrIO)
	_, err := disk.Stat(to)
	testkit.WantError(t, "the new directory", err, vfs.ErrNotExist)
	fs.Observe(nil)
	testkit.Must(t, run())
	_, err = disk.Crash(memfs.KeepNone, nil).Stat(to)
	testkit.Must(t, err)
}
