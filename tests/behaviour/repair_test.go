package behaviour

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// allOf returns all that the database of a disk has, after a check of every byte.
func allOf(t *testing.T, disk *memfs.FS) (all []model.Item) {
	t.Helper()
	db := testkit.OpenOn(t, disk, nil)
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.View(func(tx stoat.Txn) (err error) {
		all, err = testkit.ScanAll(tx, stoat.IterOptions{})
		return err
	}))
	testkit.Must(t, db.Close())
	return all
}

func TestRepair_RebuildsATableOrSaysWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	checkRepairs(t, testkit.NewSampleDisk(t))
}

func TestRepair_RebuildsATableWithVersionsThatShareAValue(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.NumVersions = 3 })
	testkit.SetKeys(t, db, 0, 100, 5000, 1)
	testkit.Must(t, db.Collect(t.Context())) // flushes
	renewKeys(t, db, 50, 2)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	checkRepairs(t, disk)
}

// checkRepairs damages a table at many places, and demands that a repair finds that.
func checkRepairs(t *testing.T, intact *memfs.FS) {
	t.Helper()
	want := allOf(t, intact)
	names, err := intact.List(testkit.Dir)
	testkit.Must(t, err)
	i := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, ".table") })
	path := intact.Join(testkit.Dir, names[i])
	content, err := testkit.ReadFile(intact, path)
	testkit.Must(t, err)
	const damages = 100
	repaired, refused := 0, 0
	for n := range damages {
		disk, at := intact.Clone(), len(content)*n/damages
		damaged := slices.Clone(content)
		damaged[at] ^= 0x10
		testkit.Must(t, testkit.WriteFile(disk, path, damaged))
		done, err := stoat.Repair(t.Context(), testkit.Dir, &stoat.Options{FS: disk})
		testkit.Must(t, err)
		switch {
		case len(done) == 1 && done[0].Err == nil:
			repaired++
			if r := done[0]; r.File != names[i] || r.New == "" || len(r.Parts) == 0 {
				t.Errorf("byte %d: the repair is %+v", at, r)
			}
		case len(done) == 1:
			refused++
			testkit.WantError(t, "a table without an entry", done[0].Err, stoat.ErrCorrupt)
			continue
		case len(done) != 0:
			t.Errorf("byte %d: %d tables are reported: %+v", at, len(done), done)
		}
		if got := allOf(t, disk); !slices.Equal(got, want) {
			t.Errorf("byte %d: the repaired database has %d keys, want %d", at, len(got), len(want))
		}
	}
	if repaired == 0 || refused == 0 {
		t.Errorf("%d repaired and %d refused: the damages came to too little", repaired, refused)
	}
}

// A database refuses a table when one bit of the footer of its seal is wrong. Salvage corrects
// the bit while it reads.
func TestRepair_FindsAWrongBitInTheSealOfATable(t *testing.T) {
	t.Parallel()
	intact := rich(t, testkit.Keys, true)
	names, err := intact.List(testkit.Dir)
	testkit.Must(t, err)
	spoil := func(suffix string, at int) (disk *memfs.FS, spoilt int) {
		disk = intact.Clone()
		for _, name := range names {
			if !strings.HasSuffix(name, suffix) {
				continue
			}
			content, err := testkit.ReadFile(disk, disk.Join(testkit.Dir, name))
			testkit.Must(t, err)
			content[len(content)-at] ^= 0x10
			testkit.Must(t, testkit.WriteFile(disk, disk.Join(testkit.Dir, name), content))
			spoilt++
		}
		return disk, spoilt
	}
	disk, spoilt := spoil(".table", 50)
	done, err := stoat.Repair(t.Context(), testkit.Dir, &stoat.Options{FS: disk, Keys: testkit.Keys})
	testkit.Must(t, err)
	if len(done) != spoilt || spoilt == 0 {
		t.Errorf("%d tables are repaired, want %d", len(done), spoilt)
	}
	for _, r := range done {
		if r.Err != nil || r.New == "" || !slices.Equal(r.Parts, []string{"seal"}) {
			t.Errorf("the repair is %+v", r)
		}
	}
	db, err := stoat.Open(testkit.Dir, richOptions(disk, testkit.Keys))
	testkit.Must(t, err)
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
	disk, _ = spoil("KEYS", 10)
	_, err = stoat.Repair(t.Context(), testkit.Dir, &stoat.Options{FS: disk, Keys: testkit.Keys})
	testkit.WantError(t, "with a wrong bit in the keys", err, stoat.ErrCorrupt)
}

// The file KEYS.tmp says that the name of KEYS may not be durable, although it is there.
func TestRepair_MakesTheDataKeysDurableBeforeItUsesThem(t *testing.T) {
	t.Parallel()
	disk := rich(t, testkit.Keys, true)
	mark := disk.Join(testkit.Dir, "KEYS.tmp")
	testkit.Must(t, testkit.WriteFile(disk, mark, nil))
	_, err := stoat.Repair(t.Context(), testkit.Dir, &stoat.Options{FS: disk, Keys: testkit.Keys})
	testkit.Must(t, err)
	if _, err := disk.Stat(mark); !errors.Is(err, vfs.ErrNotExist) {
		t.Errorf("the mark of uncertain keys: %v", err)
	}
	db, err := stoat.Open(testkit.Dir, richOptions(disk, testkit.Keys))
	testkit.Must(t, err)
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}

// repairedFooter repairs a table with a wrong footer, after a change of the directory. It returns
// the name of the new table.
func repairedFooter(t *testing.T, change func(disk *memfs.FS) error) (table string) {
	t.Helper()
	disk := testkit.NewSampleDisk(t)
	want := allOf(t, disk)
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	i := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, ".table") })
	path := disk.Join(testkit.Dir, names[i])
	content, err := testkit.ReadFile(disk, path)
	testkit.Must(t, err)
	content[len(content)-1] ^= 1 // of the footer
	testkit.Must(t, testkit.WriteFile(disk, path, content))
	testkit.Must(t, change(disk))
	done, err := stoat.Repair(t.Context(), testkit.Dir, &stoat.Options{FS: disk})
	if err != nil || len(done) != 1 || done[0].Err != nil || done[0].New == "" {
		t.Fatalf("the repair is %+v, %v", done, err)
	}
	if got := allOf(t, disk); !slices.Equal(got, want) {
		t.Errorf("%d keys are there, want %d", len(got), len(want))
	}
	return done[0].New
}

// Pointers have room for file numbers of 32 bits.
func TestRepair_DoesNotCountOnFromAForeignFile(t *testing.T) {
	t.Parallel()
	const foreign = "8589934592.table"
	table := repairedFooter(t, func(disk *memfs.FS) error {
		return testkit.WriteFile(disk, disk.Join(testkit.Dir, foreign), nil)
	})
	if len(table) >= len(foreign) {
		t.Errorf("the new table is %s", table)
	}
}

// A copy of a database may have no lock file. Open makes one.
func TestRepair_NeedsNoLockFile(t *testing.T) {
	t.Parallel()
	repairedFooter(t, func(disk *memfs.FS) error { return disk.Remove(disk.Join(testkit.Dir, "LOCK")) })
}

// A mistyped path must not leave a lock file.
func TestRepair_LeavesADirectoryWithoutADatabase(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	testkit.Must(t, disk.MkdirAll(testkit.Dir))
	_, err := stoat.Repair(t.Context(), testkit.Dir, &stoat.Options{FS: disk})
	testkit.WantError(t, "an empty directory", err, fs.ErrNotExist)
	if names, err := disk.List(testkit.Dir); err != nil || len(names) > 0 {
		t.Errorf("the directory has %q, %v", names, err)
	}
}

func TestRepair_RefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	disk := rich(t, testkit.Keys, true)
	run := func(ctx context.Context, dir string, keys stoat.KeyProvider) error {
		_, err := stoat.Repair(ctx, dir, &stoat.Options{FS: disk, Keys: keys})
		return err
	}
	testkit.Must(t, run(t.Context(), testkit.Dir, testkit.Keys))
	testkit.WantError(t, "without a key", run(t.Context(), testkit.Dir, nil), stoat.ErrKey)
	testkit.WantError(t, "of nothing", run(t.Context(), "/nothing", nil), fs.ErrNotExist)
	_, err := stoat.Repair(t.Context(), testkit.Dir, &stoat.Options{FS: disk, Keys: testkit.Keys, ReadOnly: true})
	testkit.WantError(t, "of a read-only database", err, stoat.ErrReadOnly)
	db, err := stoat.Open(testkit.Dir, richOptions(disk, testkit.Keys))
	testkit.Must(t, err)
	testkit.WantError(t, "of an open database", run(t.Context(), testkit.Dir, testkit.Keys), stoat.ErrLocked)
	testkit.Must(t, db.Close())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.WantError(t, "when it is cancelled", run(ctx, testkit.Dir, testkit.Keys), context.Canceled)
}
