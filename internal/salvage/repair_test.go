package salvage_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/salvage"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// spoilTables changes a byte in each section of that name, of all tables.
func spoilTables(t *testing.T, disk *memfs.FS, section string) (spoilt int) {
	t.Helper()
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, ".table") {
			continue
		}
		path := disk.Join(testkit.Dir, name)
		f, err := disk.Open(path, vfs.CatTable)
		testkit.Must(t, err)
		size, err := f.Size()
		testkit.Must(t, err)
		d, err := table.OpenDamaged(f, size, name, nil)
		testkit.Must(t, err)
		for _, s := range append(d.Sections(), table.Section{Name: "keys", Offset: d.Block(0).KeyOffset, Length: d.Block(0).KeyLength}) {
			if s.Name == section && s.Length > 0 {
				content, err := testkit.ReadFile(disk, path)
				testkit.Must(t, err)
				change := byte(0x5a)
				if section == "directory" {
					change = 0x10 // only one wrong bit of it can be found
				}
				content[s.Offset+s.Length/2] ^= change
				testkit.Must(t, testkit.WriteFile(disk, path, content))
				spoilt++
			}
		}
		testkit.Must(t, f.Close())
	}
	return spoilt
}

func repair(t *testing.T, fs vfs.FS) ([]salvage.Repair, error) {
	o := optionsFor(fs, rand.New(rand.NewPCG(1, 1)))
	return salvage.RepairTables(t.Context(), o)
}

func TestRepair_RebuildsWhatCanBeDerived(t *testing.T) {
	t.Parallel()
	intact := testkit.NewSampleDisk(t)
	want := entriesOf(t, intact, testkit.Dir)
	for _, section := range []string{"hash index", "sums", "fences", "directory", "properties", "footer"} {
		disk := intact.Clone()
		spoilt := spoilTables(t, disk, section)
		done, err := repair(t, disk)
		testkit.Must(t, err)
		if len(done) != spoilt || spoilt == 0 {
			t.Errorf("%s: %d tables are repaired, want %d", section, len(done), spoilt)
		}
		for _, r := range done {
			if r.Err != nil || r.New == "" || !slices.Contains(r.Parts, section) {
				t.Errorf("%s: %v", section, r)
			}
		}
		got := entriesOf(t, disk, testkit.Dir)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the repaired tables have other entries", section)
		}
		db := testkit.OpenOn(t, disk, nil)
		testkit.MustBeSound(t, db)
		testkit.Must(t, db.Close())
		if done, err := repair(t, disk); err != nil || len(done) > 0 {
			t.Errorf("%s: a second repair: %v, %v", section, done, err)
		}
	}
}

func TestRepair_LeavesWhatHasLostEntries(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	spoilt := spoilTables(t, disk, "keys")
	before, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	done, err := repair(t, disk)
	testkit.Must(t, err)
	after, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	if len(done) != spoilt || !slices.Equal(before, after) {
		t.Errorf("%d tables of %d are reported; files before %q, after %q", len(done), spoilt, before, after)
	}
	for _, r := range done {
		if r.Err == nil || r.New != "" {
			t.Errorf("a table without a block: %v", r)
		}
	}
}

func TestRepair_GoesOnAfterATableThatTheDeviceCannotRead(t *testing.T) {
	t.Parallel()
	intact := testkit.NewSampleDisk(t)
	spoilt := spoilTables(t, intact, "hash index")
	for _, op := range []vfs.OpKind{vfs.OpOpen, vfs.OpRead, vfs.OpAny} {
		disk := intact.Clone()
		all, err := repair(t, disk.Clone())
		testkit.Must(t, err)
		bad := all[0].File
		fs := faultfs.New(disk)
		fs.Add(faultfs.Rule{Op: op, Path: bad, Forever: true, Err: vfs.ErrIO})
		done, err := repair(t, fs)
		if err != nil || len(done) != spoilt {
			t.Errorf("%v fails: %d of %d tables are reported, %v", op, len(done), spoilt, err)
		}
		for _, r := range done {
			if unread := r.File == bad; unread != errors.Is(r.Err, vfs.ErrIO) || unread != (r.New == "") {
				t.Errorf("%v of %s fails: %+v", op, bad, r)
			}
		}
	}
}

// The power fails at one call of the file system. All entries are there afterwards, in old
// tables or in new ones.
func TestRepair_ACrashLosesNothing(t *testing.T) {
	t.Parallel()
	intact := testkit.NewSampleDisk(t)
	spoilTables(t, intact, "hash index")
	want := liveEntries(t, intact)
	for n := int64(1); ; n += 1 + n/int64(testkit.Raced(8, 1)) {
		disk := intact.Clone()
		fs := faultfs.New(disk)
		fault := fs.Add(faultfs.Rule{Nth: n, Forever: true})
		_, err := repair(t, fs)
		if fault.Fired() == 0 {
			testkit.Must(t, err)
			break
		}
		if err == nil {
			continue // the old table could not be removed, for example
		}
		for _, keep := range []memfs.CrashKind{memfs.KeepNone, memfs.KeepAll} {
			left := disk.Crash(keep, nil)
			if got := liveEntries(t, left); !slices.Equal(got, want) {
				t.Fatalf("after call %d failed: %d entries, want %d", n, len(got), len(want))
			}
			done, err := repair(t, left)
			testkit.Must(t, err)
			for _, r := range done {
				if r.Err != nil {
					t.Fatalf("after call %d failed: %v", n, r)
				}
			}
		}
	}
}

// liveEntries returns the entries that salvage finds in the live tables.
func liveEntries(t *testing.T, disk *memfs.FS) []string {
	t.Helper()
	disk = disk.Clone()
	report, err := salvage.Run(t.Context(), optionsFor(disk, rand.New(rand.NewPCG(1, 1))))
	testkit.Must(t, err)
	if len(report.Lost) > 0 || !report.Manifest {
		t.Fatalf("salvage of what a crash left: %+v", report)
	}
	return entriesOf(t, disk, to)
}

func TestRepair_NeedsTheDatabaseForItself(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	db := testkit.OpenOn(t, disk, nil)
	if _, err := repair(t, disk); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("beside an open database: %v, want ErrLocked", err)
	}
	testkit.Must(t, db.Close())
}
